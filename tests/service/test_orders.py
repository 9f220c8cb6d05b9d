"""Orders in JSON: what is understood, and what is said of the rest."""

import json

import pytest

from stomprelay.service.admin.requests import LONGEST, BadRequest, BrokerRequest, parse


@pytest.mark.parametrize(
    ("body", "order"),
    [
        (b'{"broker": "*"}', BrokerRequest("*")),
        (b' {"broker":"tcp://a:61613","within":30}\n', BrokerRequest("tcp://a:61613", 30.0)),
        (b'{"within": 0.5, "broker": "a:61613"}', BrokerRequest("a:61613", 0.5)),
        (b'{"broker": "", "within": 0}', BrokerRequest("", 0.0)),
    ],
)
def test_an_order(body: bytes, order: BrokerRequest) -> None:
    """Which broker, and how long it may take."""
    assert parse(body, timed=True) == order


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "must be JSON"),
        (b"broker=*", "must be JSON"),
        (b'{"broker": "*"', "must be JSON"),
        (b"\xff\xfe", "must be JSON"),
        (b"[" * 4096, "must be JSON"),
        (b"[]", "must be an object"),
        (b'"*"', "must be an object"),
        (b"null", "must be an object"),
        (b"{}", '"broker" must be'),
        (b'{"broker": 1}', '"broker" must be'),
        (b'{"broker": null}', '"broker" must be'),
        (b'{"broker": "*", "within": "5"}', '"within" must be seconds'),
        (b'{"broker": "*", "within": true}', '"within" must be seconds'),
        (b'{"broker": "*", "within": null}', '"within" must be seconds'),
        (b'{"broker": "*", "within": -1}', '"within" must be seconds'),
        (b'{"broker": "*", "within": NaN}', '"within" must be seconds'),
        (b'{"broker": "*", "within": 1e999}', '"within" must be seconds'),
        (b'{"broker": "*", "within": %d}' % (LONGEST + 1), '"within" must be seconds'),
        (b'{"broker": "*", "wihtin": 1}', 'there is no "wihtin" here; there is broker and within'),
    ],
)
def test_what_is_not_an_order(body: bytes, words: str) -> None:
    """The reason names what is wrong."""
    with pytest.raises(BadRequest, match=words):
        parse(body, timed=True)


def test_a_time_where_none_has_a_meaning() -> None:
    """Resuming takes none, and does not pretend to."""
    with pytest.raises(BadRequest, match=json.dumps("within")):
        parse(b'{"broker": "*", "within": 1}', timed=False)
    assert parse(b'{"broker": "*"}', timed=False) == BrokerRequest("*")
