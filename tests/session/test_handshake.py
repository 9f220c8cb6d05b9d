"""CONNECT and CONNECTED as values: what each side said, and what the other one is told of it."""

import pytest

from stomprelay.session.handshake import Accord, Credentials, Offer, OwnHeader
from stomprelay.session.leg import Leg, Side, Terms
from stomprelay.wire.dialect import DIALECTS, V1_0, V1_1, V1_2, Dialect
from stomprelay.wire.frame import Frame, Limits

ALL = frozenset(DIALECTS)
ONLY_1_0 = frozenset({b"1.0"})
OURS = Terms(10000, 20000)


def first(wire: bytes, side: Side) -> Frame:
    """The first frame that a new leg of that side reads."""
    leg = Leg(side, Limits())
    leg.decoder.feed(wire)
    return next(leg.decoder.frames())


def offer(lines: bytes = b"", command: bytes = b"CONNECT") -> Offer:
    """What a client offers that says these header lines."""
    return Offer.read(first(command + b"\n" + lines + b"\n\0", Side.DOWNSTREAM))


def accord(lines: bytes = b"") -> Accord:
    """What a broker settles that answers these header lines."""
    return Accord.read(first(b"CONNECTED\n" + lines + b"\n\0", Side.UPSTREAM))


def test_an_offer_tells_no_secret() -> None:
    """Its repr shows neither passcode nor any other header."""
    assert "secret" not in repr(offer(b"login:me\npasscode:secret\nAuthorization:secret\n"))


@pytest.mark.parametrize(
    ("accept", "spoken", "dialect"),
    [
        (None, ALL, V1_0),
        (b"1.0", ALL, V1_0),
        (b"1.1", ALL, V1_1),
        (b"1.0,1.1,1.2", ALL, V1_2),
        (b"1.2,1.1,1.0", ALL, V1_2),
        (b"1.0,1.1,2.0", ALL, V1_1),
        (b"1.2,1.3", ALL, V1_2),
        (b"2.0,1.0", ALL, V1_0),
        (b"1.0,1.1,1.2", frozenset({b"1.0", b"1.1"}), V1_1),
        (b"1.1, 1.2", ALL, V1_2),
    ],
)
def test_the_agreed_version(accept: bytes | None, spoken: frozenset[bytes], dialect: Dialect) -> None:
    """The highest in common, whatever the order."""
    lines = b"" if accept is None else b"accept-version:" + accept + b"\n"
    assert offer(lines).agree(spoken) is dialect


@pytest.mark.parametrize(
    ("lines", "asked", "wire"),
    [
        # A 1.0 client to a 1.0 broker: nothing is said that it did not say.
        (b"", ONLY_1_0, b"CONNECT\n\n\0"),
        (b"login:me\npasscode:x\n", ONLY_1_0, b"CONNECT\nlogin:me\npasscode:x\n\n\0"),
        # What it did say is answered for.
        (b"heart-beat:1,1\n", ONLY_1_0, b"CONNECT\nheart-beat:10000,20000\n\n\0"),
        (b"accept-version:1.0\n", ONLY_1_0, b"CONNECT\naccept-version:1.0\n\n\0"),
        (b"accept-version:1.0,1.1\nhost:h\n", ONLY_1_0, b"CONNECT\naccept-version:1.0\nhost:h\n\n\0"),
        # Above 1.0 versions, host and heart-beats are always there; the order is the client's.
        (
            b"",
            frozenset({b"1.0", b"1.1"}),
            b"CONNECT\naccept-version:1.0,1.1\nhost:/\nheart-beat:10000,20000\n\n\0",
        ),
        (
            b"host:broker\naccept-version:1.1, 1.2\nlogin:me\n",
            ALL,
            b"CONNECT\nhost:broker\naccept-version:1.0,1.1,1.2\nlogin:me\nheart-beat:10000,20000\n\n\0",
        ),
        (
            b"heart-beat:0,0\nhost:\naccept-version:1.2\n",
            frozenset({b"1.2"}),
            b"CONNECT\nheart-beat:10000,20000\nhost:\naccept-version:1.2\n\n\0",
        ),
        # Unknown headers pass, repeated ones as often as they were said, escapes and blanks untouched.
        (
            b"client-id:me\\c1\nx: 1 \nx:2\nactivemq.prefetch:1\n",
            ONLY_1_0,
            b"CONNECT\nclient-id:me\\c1\nx: 1 \nx:2\nactivemq.prefetch:1\n\n\0",
        ),
        # A receipt is not allowed here; ActiveMQ would answer it inside CONNECTED.
        (b"receipt:1\nlogin:me\n", ONLY_1_0, b"CONNECT\nlogin:me\n\n\0"),
        # Settled headers are said once.
        (b"accept-version:1.0\naccept-version:1.2\n", ONLY_1_0, b"CONNECT\naccept-version:1.0\n\n\0"),
    ],
    ids=lambda part: repr(part) if isinstance(part, bytes) else "",
)
def test_connect(lines: bytes, asked: frozenset[bytes], wire: bytes) -> None:
    """The client's offer, with what this leg settles for itself put in place."""
    assert offer(lines).connect(asked, OURS) == wire


def test_the_upstreams_own_host_and_credentials() -> None:
    """They take the place of the client's, however it spells those; without a passcode none is sent."""
    own = offer(b"passcode:x\nhost:h\nlogin:me\nfoo:1\n")
    assert own.connect(ONLY_1_0, OURS, host=b"vh", credentials=Credentials(b"relay", b"s3:\\c")) == (
        b"CONNECT\npasscode:s3:\\c\nhost:vh\nlogin:relay\nfoo:1\n\n\0"
    )
    assert offer().connect(ONLY_1_0, OURS, host=b"vh", credentials=Credentials(b"relay", b"x")) == (
        b"CONNECT\nhost:vh\nlogin:relay\npasscode:x\n\n\0"
    )
    own = offer(b"Login:admin\nlogin :admin\nPASSCODE:secret\n Host:other\nlogin:me\nlogins:1\n")
    assert own.connect(ONLY_1_0, OURS, host=b"vh", credentials=Credentials(b"relay")) == (
        b"CONNECT\nlogin:relay\nlogins:1\nhost:vh\n\n\0"
    )
    assert offer(b"login:me\npasscode:secret\n").connect(
        ONLY_1_0, OURS, credentials=Credentials(b"relay")
    ) == (b"CONNECT\nlogin:relay\n\n\0")


@pytest.mark.parametrize(
    ("lines", "value", "wire"),
    [
        (b"", b"192.0.2.7", b"CONNECT\nX-Client:192.0.2.7\n\n\0"),
        (b"X-Client:forged\nfoo:1\n", b"192.0.2.7", b"CONNECT\nX-Client:192.0.2.7\nfoo:1\n\n\0"),
        (b"x-client:1\nX-CLIENT:2\nX-Client:3\n", b"::1", b"CONNECT\nX-Client:::1\n\n\0"),
        (b" X-Client\t:1\n\x01x-client:2\nx-client-2:3\n", None, b"CONNECT\nx-client-2:3\n\n\0"),
        (b"X-Client:forged\n", None, b"CONNECT\n\n\0"),
    ],
)
def test_a_header_of_our_own(lines: bytes, value: bytes | None, wire: bytes) -> None:
    """Whatever a client says under its name, in any case and with blanks that a broker may drop, is not sent on."""
    assert offer(lines).connect(ONLY_1_0, OURS, added=OwnHeader(b"X-Client", value)) == wire


@pytest.mark.parametrize(
    ("lines", "terms"),
    [
        (b"", Terms(0, 0)),
        (b"heart-beat:0,0\n", Terms(0, 0)),
        (b"heart-beat:1000,2000\n", Terms(1000, 2000)),
        (b"heart-beat:\n", Terms(0, 0)),
        # ActiveMQ echoes what it was sent.
        (b"heart-beat:-1,-1\n", Terms(0, 0)),
        (b"heart-beat:nonsense\n", Terms(0, 0)),
    ],
    ids=repr,
)
def test_the_terms_of_an_accord(lines: bytes, terms: Terms) -> None:
    """A broker that spells them badly beats as one that does not."""
    assert accord(lines).terms == terms


@pytest.mark.parametrize(
    ("lines", "dialect", "terms", "wire"),
    [
        # A 1.0 broker that says nothing, to each kind of client.
        (b"", V1_0, None, b"CONNECTED\nsession:s1\n\n\0"),
        (b"", V1_1, None, b"CONNECTED\nversion:1.1\nsession:s1\n\n\0"),
        (b"", V1_2, OURS, b"CONNECTED\nversion:1.2\nheart-beat:10000,20000\nsession:s1\n\n\0"),
        # RabbitMQ and ActiveMQ say all of it, on 1.0 too.
        (
            b"server:RabbitMQ/3.10.8\nsession:session-x\nheart-beat:0,0\nversion:1.0\n",
            V1_0,
            None,
            b"CONNECTED\nserver:RabbitMQ/3.10.8\nsession:session-x\nheart-beat:0,0\nversion:1.0\n\n\0",
        ),
        (
            b"server:ActiveMQ/5.17.2\nheart-beat:5,6\nsession:ID:x\nversion:1.2\n",
            V1_1,
            OURS,
            b"CONNECTED\nserver:ActiveMQ/5.17.2\nheart-beat:10000,20000\nsession:ID:x\nversion:1.1\n\n\0",
        ),
        # The broker's beats are not the client's: one that spoke of none is promised none.
        (
            b"heart-beat:1000,1000\nversion:1.2\nsession:x\n",
            V1_2,
            None,
            b"CONNECTED\nheart-beat:0,0\nversion:1.2\nsession:x\n\n\0",
        ),
        # Unknown headers, repeated ones and raw octets pass.
        (b"session:a\\cb:c\nfoo: 1\nfoo:2\n", V1_0, None, b"CONNECTED\nsession:a\\cb:c\nfoo: 1\nfoo:2\n\n\0"),
        (b"session:\n", V1_0, None, b"CONNECTED\nsession:s1\n\n\0"),
    ],
    ids=lambda part: repr(part) if isinstance(part, bytes) else "",
)
def test_connected(lines: bytes, dialect: Dialect, terms: Terms | None, wire: bytes) -> None:
    """The broker's accord in the client's version, with this leg's beats, and a session in any case."""
    assert accord(lines).connected(dialect, terms, b"s1") == wire + b"\n"
