"""A short conversation with each broker of an upstream, with each login that the relay may use there.

The conversation subscribes to a topic that nobody else uses, sends one message to it, receives it, and leaves. Nothing
of it is left at the broker. ActiveMQ keeps topics, so there it is a temporary queue, which ends with the session.
"""

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from stomprelay.auth.settings import AuthSettings, BrokerLogin
from stomprelay.cli.move.precheck.report import Login
from stomprelay.pipeline.stomp.client import Client, SessionLost
from stomprelay.pipeline.stomp.sockets import Unreachable
from stomprelay.relay.model.features import ACTIVEMQ
from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.handshake import Credentials
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.names import MESSAGE, RECEIPT, RECEIPT_ID

_NUMBER: Final = b"1"
_ASKED: Final = b"check"


class Tried(NamedTuple):
    """A login that the relay may use: its name, whose it is, and its credentials; None if these are not known."""

    name: str
    whose: str
    credentials: Credentials | None


def known(
    listeners: Iterable[Listener], auths: Iterable[AuthSettings], old: str, new: Upstream
) -> Iterator[Tried]:
    """Yield the logins that the relay may use at `new` for clients that are now at the upstream `old`."""
    if new.credentials is not None:
        yield Tried(
            new.credentials.login.decode("utf-8", "replace"), f"of upstream.{new.name}", new.credentials
        )
    named = {each.name: each for each in auths}
    for listener in listeners:
        if all(each.name != old for each in listener.upstreams()):
            continue
        auth = None if listener.auth is None else named.get(listener.auth)
        if auth is None:
            if new.credentials is None:
                yield Tried("the clients' own", f"of listener.{listener.name}", None)
            continue
        whose = f"of auth.{auth.name}"
        for user, login in auth.logins.items():
            yield Tried(login.login.decode("utf-8", "replace"), f"{whose} for {user}", login)
        if auth.broker is BrokerLogin.USER:
            users = [] if auth.users is None else [*auth.users.entries]
            for user in users:
                if user not in auth.logins:
                    yield Tried(user, f"{whose}, without a passcode", Credentials(user.encode()))
            if auth.tokens or auth.service or auth.certificates:
                yield Tried("users who are known by other means", whose, None)
        elif auth.broker is BrokerLogin.CLIENT and new.credentials is None:
            yield Tried("the clients' own", whose, None)


def product(upstream: Upstream, within: float) -> str | None:
    """Return the name of the profile that the first broker's CONNECTED shows; None if it does not let the relay in."""
    broker = upstream.brokers[0]
    try:
        with Client(_alone(upstream, broker, upstream.credentials), "check") as client:
            client.connect(within)
            client.disconnect(within)
    except (SessionLost, Unreachable):
        return None
    return None if broker.profile is None else broker.profile.name


def converse(new: Upstream, product: str, logins: Iterable[Tried], within: float) -> Iterator[Login]:
    """Try each login at each broker, and yield what became of it. A conversation takes `within` seconds at most."""
    own = product == ACTIVEMQ
    place = b"/temp-queue/relay-check" if own else b"/topic/relay-check-%b" % os.urandom(4).hex().encode()
    there = replace(new, map=replace(new.map, temporary=False)) if own else new
    for login, broker in [(login, broker) for login in dict.fromkeys(logins) for broker in new.brokers]:
        name = f"{login.name} ({login.whose})"
        if login.credentials is None:
            yield Login(name, str(broker), None, "its passcode is not known here")
            continue
        try:
            _converse(_alone(there, broker, login.credentials), place, within)
        except Unreachable as error:
            yield Login(name, str(broker), None, str(error))
        except SessionLost as error:
            yield Login(name, str(broker), False, str(error))
        else:
            yield Login(name, str(broker), True, "")


def _alone(upstream: Upstream, broker: Broker, credentials: Credentials | None) -> Upstream:
    return replace(
        upstream, groups=alone(broker), credentials=credentials, confirm=False, close_on_error=True
    )


def _converse(upstream: Upstream, place: bytes, within: float) -> None:
    """Hold the conversation. Raises `SessionLost`, with the broker's words, and `Unreachable`."""
    end = time.monotonic() + within
    with Client(upstream, "check") as client:
        client.connect(within)
        lines = [(b"id", _NUMBER), (b"destination", place), (b"ack", b"auto")]
        client.send(b"SUBSCRIBE\n%b\n\0" % V1_2.write(lines))
        lines = [(b"destination", place), (b"receipt", _ASKED)]
        client.send(b"SEND\n%b\nstomprelay move check\0" % V1_2.write(lines))
        missing = {MESSAGE, RECEIPT}
        while missing:
            left = end - time.monotonic()
            if left <= 0:
                raise SessionLost(
                    f"no {' and no '.join(sorted(each.decode() for each in missing))} in {within:g} s"
                )
            for frame in client.frames(left):
                if frame.command is MESSAGE or frame.header(RECEIPT_ID, V1_2) == _ASKED:
                    missing.discard(frame.command)
        client.send(b"UNSUBSCRIBE\nid:%b\n\n\0" % _NUMBER)
        client.disconnect(max(0.1, end - time.monotonic()))
