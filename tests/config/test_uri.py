"""The form of an upstream's URI: lists, options, and what is not written properly."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.config.uri import Address, Options, Several, parse

A, B, C = Address("tcp://a:1"), Address("tcp://b:2"), Address("tcp://c:3")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("failover:(tcp://a:1)", Several("failover", (A,))),
        ("failover://(tcp://a:1,tcp://b:2)", Several("failover", (A, B))),
        ("FailOver:(tcp://a:1)", Several("failover", (A,))),
        ("failover:\n ( tcp://a:1 ,\n tcp://b:2\n) ?x=1", Several("failover", (A, B), (("x", "1"),))),
        ("failover:(tcp://a:1)? x=1 & y=2", Several("failover", (A,), (("x", "1"), ("y", "2")))),
        ("failover:(tcp://a:1)?x=", Several("failover", (A,), (("x", ""),))),
        ("failover:(tcp://a:1)?x=a=b", Several("failover", (A,), (("x", "a=b"),))),
        ("failover:(tcp://a:1)?x=%2Fa%20b%26c%3Dd%28", Several("failover", (A,), (("x", "/a b&c=d("),))),
        ("failover:(tcp://a:1)?%78=1+2", Several("failover", (A,), (("x", "1+2"),))),
        ("failover:(tcp://a:1)?x=(1,2)?", Several("failover", (A,), (("x", "(1,2)?"),))),
        ("failover:tcp://a:1", Several("failover", (A,))),
        ("failover://tcp://a:1, tcp://b:2", Several("failover", (A, B))),
        ("failover:tcp://a:1,tcp://b:2?x=1&y=2", Several("failover", (A, B), (("x", "1"), ("y", "2")))),
        (
            "failover:(tcp://a:1?weight=2,tcp://b:2)",
            Several("failover", (Address("tcp://a:1", (("weight", "2"),)), B)),
        ),
        (
            "failover:(tcp://[::1]:5,memory:)",
            Several("failover", (Address("tcp://[::1]:5"), Address("memory:"))),
        ),
        (
            r"failover:(unix:/run/a\,b\(c\?d,tls:h:1?weight=3)",
            Several("failover", (Address(r"unix:/run/a\,b\(c\?d"), Address("tls:h:1", (("weight", "3"),)))),
        ),
        (r"failover:(tls:\:\:1:2)", Several("failover", (Address(r"tls:\:\:1:2"),))),
        ("failover:(odd:f(x,y):1,tcp://a:1)", Several("failover", (Address("odd:f(x,y):1"), A))),
        (
            "fanout:(failover:(tcp://a:1,tcp://b:2)?x=1,tcp://c:3)?y=2",
            Several("fanout", (Several("failover", (A, B), (("x", "1"),)), C), (("y", "2"),)),
        ),
        (
            "fanout:(static://(failover:(tcp://a:1),tcp://b:2)?z=1)",
            Several("fanout", (Several("static", (Several("failover", (A,)), B), (("z", "1"),)),)),
        ),
    ],
)
def test_lists(text: str, found: Several) -> None:
    """Both of ActiveMQ's forms, nested, with options of addresses and of lists."""
    assert parse(text) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("failover:", "failover:(...) names no broker"),
        ("failover:()", "failover:(...) names no broker"),
        ("fanout:(failover:(),a)", "failover:(...) names no broker"),
        ("failover:?x=1", "failover:(...) names no broker"),
        ("failover:(a,)", "failover:(...) has a comma too many"),
        ("failover:a,", "failover:(...) has a comma too many"),
        ("failover:(a", "has a parenthesis that nothing closes"),
        ("fanout:(failover:(a)", "has a parenthesis that nothing closes"),
        (r"failover:(a\)", "has a parenthesis that nothing closes"),
        ("failover:(a)?x=(", "has a parenthesis that nothing closes"),
        ("failover:a)", "has a closing parenthesis that nothing opened"),
        ("failover:(a))", "has a closing parenthesis that nothing opened"),
        ("failover:(a),b", "must have nothing but ?option=value&... behind failover:(...)"),
        ("failover:(a)(b)", "must have nothing but ?option=value&... behind failover:(...)"),
        ("fanout:(failover:(a)x,b)", "must have nothing but ?option=value&... behind failover:(...)"),
        ("failover:(a)?", "must have its options as ?name=value&name=value"),
        ("failover:(a)?x", "must have its options as ?name=value&name=value"),
        ("failover:(a)?x=1&", "must have its options as ?name=value&name=value"),
        ("failover:(a)?x=1&x=1", 'option "x" is said twice'),
        ("failover:(a)?x=1&%78=2", 'option "x" is said twice'),
        ("failover:(a?w=1&w=2)", 'option "w" is said twice'),
        ("failover:a?w=1,b?w=2", "an address with options needs parentheses around the list: failover:(...)"),
        ("fanout:(failover:a,b)", "within a list, failover: needs parentheses: failover:(...)"),
        ("failover:failover:(a)", None),
    ],
)
def test_what_is_not_written_properly(text: str, said: str | None) -> None:
    """Told in words that name what is wrong; a list in the short form is still a list."""
    if said is None:
        assert parse(text) == Several("failover", (Several("failover", (Address("a"),)),))
        return
    with pytest.raises(ValueError, match=r".") as error:
        parse(text)
    assert str(error.value).startswith(said)


def spelled(found: Address | Several, slashes: str, blank: str) -> str:
    """The tree as a URI, in one of the ways that there are."""
    options = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in found.options)
    if isinstance(found, Address):
        text = found.text
    else:
        text = ",".join(f"{blank}{spelled(part, slashes, blank)}{blank}" for part in found.parts)
        text = f"{found.scheme}:{slashes}({text})"
    return f"{text}?{options}" if options else text


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
options: st.SearchStrategy[Options] = st.lists(
    st.tuples(names, st.text(st.characters(codec="utf-8"), max_size=5)),
    max_size=3,
    unique_by=lambda pair: pair[0],
).map(tuple)
texts = st.sampled_from(
    [
        "tcp://a:1",
        "ssl://b",
        "tcp://[::1]:5",
        "memory:",
        "tls:h:1",
        r"unix:/a\,b",
        r"unix:/\(\?",
        "odd:f(x,y)",
    ]
)
addresses = st.builds(Address, texts, options)


def lists(scheme: str, parts: st.SearchStrategy[Address | Several]) -> st.SearchStrategy[Several]:
    """Lists under a scheme."""
    return st.builds(Several, st.just(scheme), st.lists(parts, min_size=1, max_size=4).map(tuple), options)


failovers = lists("failover", addresses)
trees = failovers | lists("fanout", addresses | failovers | lists("static", addresses | failovers))


@given(trees, st.sampled_from(["", "//"]), st.sampled_from(["", " ", "\n  "]))
def test_what_was_written_is_read(found: Several, slashes: str, blank: str) -> None:
    """Any tree of lists, with any options, comes back as it was built."""
    assert parse(spelled(found, slashes, blank)) == found
