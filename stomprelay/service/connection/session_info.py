"""A snapshot of a session, for the list of sessions. It uses only figures that are counted anyway."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from stomprelay.relay.link.link import Link
from stomprelay.relay.relay import Relay
from stomprelay.service.log import counted

SHOWN: Final = 5
LONGEST: Final = 200


class Sizes(NamedTuple):
    """Bytes that went between a client and the relay, and between the relay and the client's brokers."""

    from_client: int
    to_client: int
    from_brokers: int
    to_brokers: int


class SessionInfo(NamedTuple):
    """A session, as it is shown. `login` and `version` are the client's. `brokers` and `broker_versions` have an entry
    for each group of brokers, None where there is none. `age` and `idle` (without beats) are seconds. `destinations`
    are the first `SHOWN` subscriptions, `sent_to` the last destinations of SENDs. `limited` is the limit for which the
    client waits.
    """

    session: str
    listener: str
    login: str | None
    client: str
    version: str | None
    brokers: tuple[str | None, ...]
    broker_versions: tuple[str | None, ...]
    age: float
    idle: float | None
    destinations: tuple[str, ...]
    more_destinations: int
    unconfirmed: int
    unacknowledged: int
    client_frames: int
    broker_frames: int
    client_bytes: int
    broker_bytes: int
    to_client_bytes: int
    to_broker_bytes: int
    sent_to: tuple[str, ...]
    limited: str | None = None


def session_info(relay: Relay, client: str, now: float, sizes: Sizes) -> SessionInfo:
    """Return the present figures of a relay. `client`: its client's address."""
    session, links, active_at = relay.session, relay.links, relay.active_at
    shown = tuple(islice(destinations(relay), SHOWN))
    return SessionInfo(
        relay.name.decode("ascii"),
        relay.listener.name,
        None if relay.login is None else spell_words(relay.login),
        client,
        None if session is None else session.dialect.version.decode("ascii"),
        tuple(None if link.broker is None else str(link.broker) for link in links),
        tuple(map(_version, links)),
        round(now - min(relay.opened_at, now), 3),
        None if active_at is None else round(now - active_at, 3),
        shown,
        subscribed(relay) - len(shown),
        *open_work(links),
        0 if session is None else session.client_frames,
        0 if session is None else session.broker_frames,
        sizes.from_client,
        sizes.from_brokers,
        sizes.to_client,
        sizes.to_brokers,
        () if session is None else tuple(map(spell_words, session.sent_to)),
        None if relay.held_by is None else f"{relay.held_by.limit.value} ({relay.held_by.scope.value})",
    )


def open_work(links: list[Link]) -> tuple[int, int]:
    """Return of how many SENDs of a client a RECEIPT is awaited, and how many deliveries it owes an ACK for."""
    unconfirmed = sum(map(_unconfirmed, _first(links, _unconfirmed)))
    return unconfirmed, sum([link.session.unacknowledged for link in links])


def destinations(relay: Relay) -> Iterator[str]:
    """Yield all destinations that the client of a relay is subscribed to; be done with them in this turn."""
    for link in _first(relay.links, _subscribed):
        yield from map(spell_words, link.session.subscriptions.destinations)


def subscribed(relay: Relay) -> int:
    """Return how many destinations the client of a relay is subscribed to."""
    return sum(map(_subscribed, _first(relay.links, _subscribed)))


def _first(links: list[Link], measure: Callable[[Link], int]) -> list[Link]:
    """Return for each upstream the link with the largest measure: frames for one of its groups go to all."""
    if len(links) == 1:
        return links
    found: dict[str, Link] = {}
    for link in links:
        known = found.get(link.upstream.name)
        if known is None or measure(link) > measure(known):
            found[link.upstream.name] = link
    return list(found.values())


def _subscribed(link: Link) -> int:
    return len(link.session.subscriptions.destinations)


def _unconfirmed(link: Link) -> int:
    return len(link.session.receipts) if link.resender is None else link.resender.unconfirmed.sends


def _version(link: Link) -> str | None:
    if link.broker is None:
        return None
    return link.connection.leg.dialect.version.decode("ascii")


def spell_words(value: bytes) -> str:
    """Return a client's words as text, cut where they are long."""
    text = value[: 4 * LONGEST].decode("utf-8", "backslashreplace")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def end_of_session(relay: Relay, sizes: Sizes) -> dict[str, object]:
    """Return the fields of the log line for the end of a session that a broker had accepted."""
    session, links, login = relay.session, relay.links, relay.login
    assert session is not None  # a broker had accepted it
    unconfirmed, unacknowledged = open_work(links)
    brokers = [str(each) for link in links if (each := link.broker or link.before)]
    return {
        "from_client": f"{counted(session.client_frames, 'frame')}, {counted(sizes.from_client, 'byte')}",
        "from_brokers": f"{counted(session.broker_frames, 'frame')}, {counted(sizes.from_brokers, 'byte')}",
        "left": f", {unconfirmed} unconfirmed" if unconfirmed else "",
        "login": None if login is None else spell_words(login),
        "version": session.dialect.version.decode("ascii"),
        "brokers": " ".join(brokers),
        "client_frames": session.client_frames,
        "broker_frames": session.broker_frames,
        "client_bytes": sizes.from_client,
        "broker_bytes": sizes.from_brokers,
        "to_client_bytes": sizes.to_client,
        "to_broker_bytes": sizes.to_brokers,
        "unconfirmed": unconfirmed,
        "unacknowledged": unacknowledged,
    }
