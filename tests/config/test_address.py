"""Every way in which a broker may be named."""

import pytest

from stomprelay.config.address import broker


@pytest.mark.parametrize(
    ("text", "endpoint", "host", "tls"),
    [
        ("tcp://broker:1", "tcp:host=broker:port=1", "broker", False),
        ("tcp://broker", "tcp:host=broker:port=61613", "broker", False),
        ("stomp://10.0.0.1", "tcp:host=10.0.0.1:port=61613", "10.0.0.1", False),
        ("ssl://broker", "tcp:host=broker:port=61614", "broker", True),
        ("stomp+ssl://broker:443", "tcp:host=broker:port=443", "broker", True),
        ("STOMP+SSL://Broker", "tcp:host=Broker:port=61614", "Broker", True),
        ("tcp://[::1]", r"tcp:host=\:\:1:port=61613", "::1", False),
        ("ssl://[2001:db8::1]:5", r"tcp:host=2001\:db8\:\:1:port=5", "2001:db8::1", True),
        ("memory:", "memory:", "", False),
        ("tcp:b:2", "tcp:b:2", "b", False),
        ("unix:/run/a@b", "unix:/run/a@b", "", False),
        ("tls:b:2", "tls:b:2", "b", False),
        ("ssl:b:2", "ssl:b:2:hostname=b", "b", False),
        (r"ssl:\:\:1:2", r"ssl:\:\:1:2:hostname=\:\:1", "::1", False),
        ("ssl:b:2:hostname=c", "ssl:b:2:hostname=c", "b", False),
    ],
)
def test_addresses(text: str, endpoint: str, host: str, tls: bool) -> None:
    """A URI or an endpoint string becomes a broker that remembers how it was called."""
    found = broker(text)
    assert (found.uri, found.endpoint, found.host, found.tls) == (text, endpoint, host, tls)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("failover:(tcp://a:1,tcp://b:2)?randomize=false", "must be one broker's address"),
        ("FanOut:(tcp://a:1)", "must be one broker's address"),
        ("http://broker", "http:// is none of them"),
        ("tcp://", "must name a host"),
        ("tcp://a b:1", "must name a host"),
        ("tcp://a\n:1", "must name a host"),
        ("tcp://" + "é" * 70, "no international name"),
        ("tcp://a:", "the port must be a number"),
        ("tcp://a:65536", "the port must be a number"),
        ("tcp://a:1/queue", "takes no path and no options"),
        ("tcp://a:1?wireFormat.maxFrameSize=1", "takes no path and no options"),
        ("ws://a:1/ws?token=x", "must end with a path, such as /ws"),
        ("wss://a:1/w s", "must end with a path, such as /ws"),
        ("wss://user:secret@a/ws", "must not hold a user or a password"),
        ("ws:a:1", "must be tcp://host:port"),
        ("tcp://::1:61613", "must have brackets around an IPv6 address"),
        ("tcp://[::1", "nothing but a port after the brackets"),
        ("tcp://[::1]x", "nothing but a port after the brackets"),
        ("tcp://[broker]:1", "must have an IPv6 address between its brackets"),
        ("broker:61613", "a host and a port are tcp://host:port"),
        ("", "must be tcp://host:port"),
        ("memory:x", "must be tcp://host:port"),
        ("stomp:broker:1", "must be tcp://host:port"),
        ("(tcp:broker:1)", "must be tcp://host:port"),
        (":broker:1", "must be tcp://host:port"),
        ("tcp:broker:1:tiemout=5", 'did you mean "timeout"?'),
    ],
)
def test_wrong_addresses(text: str, said: str) -> None:
    """Each mistake is told with what an address looks like."""
    with pytest.raises(ValueError, match=r".") as error:
        broker(text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "tcp://user:geheim@broker:1",
        "geheim@broker:1",
        "tcp:broker:geheim@1",
        "failover:(tcp://user:geheim@broker)",
    ],
)
def test_no_secret_in_an_address(text: str) -> None:
    """A password in an address is refused, and the refusal does not repeat it."""
    with pytest.raises(ValueError, match="must") as error:
        broker(text)
    assert "geheim" not in str(error.value)
