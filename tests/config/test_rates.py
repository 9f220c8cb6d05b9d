"""Rates of listeners, addresses and users: what is read, what is refused, and what a reload makes of them."""

import pytest

from stomprelay.config import Config, ConfigError, load, share
from stomprelay.config.change import change
from stomprelay.config.settings import takes
from stomprelay.config.summary import summary
from stomprelay.config.table import Takes
from stomprelay.relay.model.rates import RateLimits, Rates

LIMITS = """
[listener.public.limits]
connects = 200
bytes = 50_000_000
clients_per_user = 3
[listener.public.limits.address]
connects = 0.5
burst = 10.0
[listener.public.limits.user]
frames = 500
when_reached = "refuse"
"""


AUTH = """
[listener.public]
auth = "people"
[upstream.main]
uri = "tcp://a:1"
[auth.people]
broker = "user"
[auth.people.service]
url = "http://127.0.0.1:8080/"
"""


def config(text: str, more: str = "") -> Config:
    """The configuration of a listener with this, which finds out who comes, and with more in front."""
    return load("relay.toml", f"{more}\n{AUTH}\n{text}")


def test_what_is_read() -> None:
    """Each scope has its own, with a burst of one second, and pauses unless it is said otherwise; so in words."""
    [listener] = config(LIMITS).listeners
    assert listener.rates == RateLimits(
        Rates(connects=200, bytes=50_000_000), Rates(connects=0.5, burst=10.0), Rates(frames=500, refuse=True)
    )
    assert listener.clients_per_user == 3
    assert config("").listeners[0].rates == RateLimits()
    told = [" ".join(line.split()) for line in summary(config(LIMITS)).splitlines()]
    for table, rates in (
        ("limits", ["connects 200", "bytes 50000000", "burst 1", "when_reached pause"]),
        ("limits.address", ["connects 0.5", "burst 10", "when_reached pause"]),
        ("limits.user", ["frames 500", "burst 1", "when_reached refuse"]),
    ):
        [name] = [line for line in told if line.startswith("listener.") and line.endswith(f".{table}")]
        begin = told.index(name)
        assert [line for line in told[begin : begin + 20] if line in rates][: len(rates)] == rates
    assert "clients_per_user 3" in told
    assert "when_reached" not in summary(config(""))


@pytest.mark.parametrize(
    ("table", "text", "said"),
    [
        ("", "frames = 0", "frames: must be a positive number for each second, not 0"),
        ("", "burst = 2", "burst: has no effect without a rate: connects, frames or bytes"),
        ("", "connects = 2\nwhen_reached = 'refuse'", "when_reached: has no effect without frames or bytes"),
        (".address", "frame = 2", 'address.frame: unknown key; did you mean "frames"?'),
        (".user", "burst = 2", "user.burst: has no effect without a rate"),
        ("", "address = 2", "address: must be a table"),
    ],
)
def test_what_is_refused(table: str, text: str, said: str) -> None:
    """With the key, and why."""
    with pytest.raises(ConfigError) as refused:
        config(f"[listener.public.limits{table}]\n{text}\n")
    assert str(refused.value).startswith(f"relay.toml: listener.public.limits.{said}")


def test_users_that_nobody_knows() -> None:
    """Where it is not found out who clients are, a limit of users is a mistake."""
    with pytest.raises(ConfigError, match=r"limits\.user: has no effect without auth"):
        load("f", "[listener.a]\nlimits.user.frames = 1.0\n")
    with pytest.raises(ConfigError, match=r"limits\.clients_per_user: has no effect without auth"):
        load("f", "[listener.a]\nlimits.clients_per_user = 5\n")
    text = "[listener.public.limits]\nuser.frames = 1.0\nclients_per_user = 5\n"
    [found] = config(text).listeners
    assert found.rates.user == Rates(frames=1.0)
    assert found.clients_per_user == 5


def test_workers_share_what_all_clients_have() -> None:
    """And each has the whole of what one address or one user has."""
    whole = config(LIMITS, "workers = 4")
    for number in range(1, 5):
        [listener] = share(whole, number).listeners
        assert listener.rates == RateLimits(
            Rates(connects=50, bytes=12_500_000),
            *(whole.listeners[0].rates.address, whole.listeners[0].rates.user),
        )
        assert listener.clients_per_user == 3


def test_a_reload_names_what_differs() -> None:
    """By its key; it has its effect at once."""
    other = LIMITS.replace("200", "300").replace("burst = 10.0", "").replace('"refuse"', '"pause"')
    found = change("relay.toml", config(LIMITS), config(other))
    assert found.changed == (
        "listener.public.limits.connects",
        "listener.public.limits.address.burst",
        "listener.public.limits.user.when_reached",
    )
    for key in ("frames", "address.burst", "user.when_reached"):
        assert takes(f"listener.NAME.limits.{key}") is Takes.AT_ONCE
