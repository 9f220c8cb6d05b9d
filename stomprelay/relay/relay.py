"""One client joined to its brokers.

The inputs are methods named in the past tense. `now` is in seconds of one clock that never goes back. Each returns
the effects that the service must perform, in order. No input raises: where one would, which is a bug, the session
ends (`Relay.failed`). The life of a relay:

    opened      the client is there; CONNECT must come in time
    received    CONNECT: it is found out who the client is, where the listener asks; a broker is opened, and of
                what the client sends meanwhile little is read
    connected   the broker is there and is sent CONNECT; its CONNECTED is passed on, and frames flow
    half_closed the client sends no more: its session ends when it has been sent what it is owed
    lost        the client went: its brokers are left. Its broker went: it gets an ERROR or, where its session
                can survive, waits while another broker is sought and sent what the lost one knew

An ERROR of ours is written, then the client's leg lingers so that it arrives. Only whole frames are written.
"""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Final, ParamSpec

from stomprelay.relay.client.connection import ClientConnection
from stomprelay.relay.client.opening import Let, Opening, join, turn_away
from stomprelay.relay.client.shutdown import CROWDED, EXPIRED, KILLED, STOPPING, Reason
from stomprelay.relay.client.turns import pace_of
from stomprelay.relay.counting import DestinationCounter
from stomprelay.relay.effects import Effect, Outbox, Pass, Report, Took
from stomprelay.relay.flow import LOST
from stomprelay.relay.guard import UNGUARDED, Guard, Renewal
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.access import ANYBODY, Ground, Identity, Refusal
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.histogram import CONNECT
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.rates import Limiter, TokenBucket
from stomprelay.relay.model.rules import AccessRules
from stomprelay.relay.notes import End, failed, not_renewed, stopped
from stomprelay.relay.sample import Looks, Sample
from stomprelay.session.effects import Close, How, Send, Wake
from stomprelay.session.kept import Budget
from stomprelay.session.leg import Leg, Side, State
from stomprelay.session.reasons import CLOSED
from stomprelay.session.refusal import complain
from stomprelay.session.session import Session
from stomprelay.wire.dialect import V1_0
from stomprelay.wire.errors import StompError

Arguments = ParamSpec("Arguments")

_SOMEBODY_ELSE: Final = Refusal(Ground.TOKEN, "it is of another user")


def _never() -> float:
    return 0.0


class Relay:
    """The join of one client's leg with those of its brokers: until CONNECT was understood the relay alone, from
    then on its `ClientConnection`.

    `name` is unique, stands in logs and is the `session` of a client whose broker gives none. `client` is the
    client's leg; those of brokers come with `Open`. `chance` is a source of numbers from 0 up to 1, by which
    sessions that do the same do it at different times. `passes`: the caller performs `Pass`. `counter`: who counts by
    destination what passes, if anybody does. `identity`: who the client is, as far as that is known. `limiter`: what
    limits how fast the clients of the listener send; `address` is by what clients of one address are counted there.
    `opened_at`: when the client came, in seconds; infinity before.
    """

    __slots__ = (
        "_accepted",
        "_chance",
        "_connection",
        "_opening",
        "_outbox",
        "_passes",
        "_rules",
        "_sample",
        "address",
        "client",
        "counter",
        "counters",
        "identity",
        "limiter",
        "listener",
        "name",
        "opened_at",
    )

    def __init__(
        self,
        listener: Listener,
        name: bytes,
        counters: Counters,
        chance: Callable[[], float] = _never,
        *,
        passes: bool = False,
        counter: DestinationCounter | None = None,
        limiter: Limiter | None = None,
        address: str | None = None,
    ) -> None:
        self.listener = listener
        self.limiter = limiter
        self.address = address
        self.name = name
        self.counters = counters
        self.client = Leg(Side.DOWNSTREAM, listener.limits)
        self._chance = chance
        self.counter = counter
        self.identity = ANYBODY
        self._passes = passes
        self._rules = listener.rules
        self._sample: Sample | None = None
        self._outbox = Outbox()
        self._connection: ClientConnection | None = None
        self._opening: Opening | None = None
        self.opened_at = inf
        self._accepted = False

    @property
    def session(self) -> Session | None:
        """What the client believes it has, once its CONNECT was understood."""
        return None if self._connection is None else self._connection.session

    @property
    def login(self) -> bytes | None:
        """The user that the client was found to be, else the login in its CONNECT, as it is written there; None where
        it has none.
        """
        if self.identity.user:
            return self.identity.user.encode()
        return None if self._connection is None else self._connection.login

    @property
    def links(self) -> list[Link]:
        """The session's links to groups of brokers."""
        return [] if self._connection is None else self._connection.flow.links

    @property
    def allowed(self) -> tuple[Pass, ...]:
        """What may pass without the relay now, as the last `Pass` of each leg said."""
        return () if self._connection is None else self._connection.turns.allowed

    @property
    def active_at(self) -> float | None:
        """When something was received last from the client or its brokers, in seconds; beats do not count. None before
        CONNECT.
        """
        return None if self.session is None else self.session.active_at

    @property
    def coupled(self) -> bool:
        """Whether client and broker are read from no faster than the other one can be written to. Otherwise call
        `blocked` and `unblocked` for a broker that is written to too fast.
        """
        return self._connection is not None and self._connection.flow.coupled

    @property
    def held_by(self) -> TokenBucket | None:
        """The limit for which the client is not read from, because it sends too fast: it is read from again, whatever
        others do. None where it need not wait.
        """
        return None if self._connection is None else self._connection.turns.held_by

    @property
    def ending(self) -> bool:
        """Whether the relay ends the session, so that of what brokers send the client gets RECEIPTs alone: they are
        read from though it takes nothing.
        """
        return self._connection is not None and self._connection.shutdown.ending is not None

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.client.closed if self._connection is None else self._connection.over

    @property
    def kept(self) -> int:
        """How many bytes are kept of the session now, those of frames that are not complete among them."""
        size = self.client.decoder.buffered
        if self._connection is not None:
            size += self._connection.session.kept.size
            for link in self._connection.flow.links:
                leg = link.state.leg
                if leg is not None:
                    size += leg.decoder.buffered
        return size

    @property
    def flows(self) -> bool:
        """Whether what the client sends next goes on to its brokers, rather than wait for them."""
        return self._connection is not None and self._connection.flows

    @property
    def pledged(self) -> bool:
        """Whether SENDs are kept that `confirm` promises to deliver."""
        connection = self._connection
        if connection is None or not any(link.upstream.confirm for link in connection.flow.links):
            return False
        return not connection.safe

    # Inputs

    def opened(self, now: float) -> list[Effect]:
        """A client connected. Give what it sends to `received`."""
        self.counters["sessions_opened"] += 1
        self._outbox.opened(self.client)
        self._opening = Opening(self.client, self.listener, self.counters, self._outbox, now)
        self.opened_at = now
        self._outbox.put(Wake(self._opening.deadline))
        return self._outbox.drain()

    def received(self, leg: Leg, data: bytes, now: float) -> list[Effect]:
        """Bytes were received on a leg."""
        try:
            if self._connection is not None:
                self._connection.received(leg, data, now)
                if not self._accepted and self.client.state is State.CONNECTED:
                    self._accepted = True
                    self._outbox.put(Took(CONNECT, self.listener.name, now - self.opened_at))
                if self._sample is not None:
                    self._watch(self._sample, leg, data, now)
            elif self._opening is not None and not leg.closed:
                let = None
                try:
                    let = self._opening.received(data, now)
                except StompError as error:
                    self._opening.fail(error)
                if let is not None:
                    self._let_in(let, now)
            if self._connection is not None:
                self._connection.settle(passes=self._passes and self._sample is None)
        except Exception as fault:
            return self.failed(fault)
        return self._outbox.drain()

    def passed(self, leg: Leg, to: Leg, frames: int, size: int, at: float) -> None:
        """So many frames of a leg, of `size` bytes together, were sent straight on to the leg `to`, as a `Pass` allows,
        the last of them at the time `at`. Nothing comes of it but that it is known.
        """
        if self._connection is not None:
            self._connection.passed(leg, to, frames, size, at)

    def gave_way(self, leg: Leg, now: float) -> list[Effect]:
        """Others had their turn after a `GiveWay`: go on with what waits on the leg."""
        connection = self._connection
        if connection is None or leg.closed:
            return []

        def act() -> None:
            connection.gave_way(leg, now)
            if self._sample is not None:
                self._watch(self._sample, leg, b"", now)

        return self._act(act)

    def connected(self, leg: Leg, now: float, address: str | None = None) -> list[Effect]:
        """The connection that an `Open` asked for is there. `address` is the client's IP address, for brokers that are
        to be told; None where it has none.
        """
        connection = self._connection
        if connection is not None:
            return self._act(connection.connected, leg, now, address)
        self._outbox.put(Close(leg, How.ABORT))
        return self._outbox.drain()

    def refused(self, leg: Leg, reason: str, now: float) -> list[Effect]:
        """The connection that an `Open` asked for cannot be had, and why."""
        connection = self._connection
        if connection is None or leg.closed:
            return []
        return self._act(connection.refused, leg, reason, now)

    def prevented(self, leg: Leg, reason: str, now: float) -> list[Effect]:
        """The connection that an `Open` asked for could not be tried, for a reason that lies with this process."""
        connection = self._connection
        if connection is None or leg.closed:
            return []
        return self._act(connection.prevented, leg, reason, now)

    def lost(self, leg: Leg, reason: str, now: float) -> list[Effect]:
        """A leg's connection ended without our `Close`."""
        connection = self._connection
        if connection is not None:
            return self._act(connection.lost, leg, reason, now)
        if self._opening is not None and not leg.closed:
            self._opening.lost(reason)
        return self._outbox.drain()

    def half_closed(self, now: float) -> list[Effect]:
        """The client has sent all that it will send. It may still read what it is owed: nothing, if it sent nothing
        since CONNECTED, or no CONNECT, or has the RECEIPT of its DISCONNECT. Call `lost` when its connection ends.
        """
        connection = self._connection
        if connection is None:
            if self._opening is not None and not self.client.closed:
                self._opening.half_closed_by_client()
            return self._outbox.drain()
        if not connection.shutdown.owing:
            return self._act(connection.lost, self.client, CLOSED, now)
        return self._act(connection.half_closed, now)

    def identified(self, identity: Identity, now: float) -> list[Effect]:
        """It was found out who the client is, as an `Identify` asked: it may come in, or stay."""
        connection = self._connection
        if connection is not None:
            if not connection.flow.guard.asked:
                return []
            if identity.user != self.identity.user:
                return self.unknown(_SOMEBODY_ELSE, now)
            self.identity = identity
            return self._act(connection.renewed, identity, now)
        let = None if self._opening is None else self._opening.identified(identity)
        return [] if let is None else self._act(self._let_in, let, now)

    def unwanted(self, error: StompError) -> list[Effect]:
        """It was found out who the client is, and it may not come in now: it is sent this as its ERROR."""
        if self._opening is not None:
            self._opening.unwanted(error)
        return self._outbox.drain()

    def unknown(self, refusal: Refusal, now: float) -> list[Effect]:
        """It was not found out who the client is, or it may not come in; or the new token that it shows is not good."""
        connection = self._connection
        if connection is not None:
            if connection.flow.guard.asked and not self.client.closed:
                turn_away(refusal, self.counters, self._outbox, not_renewed)
                connection.flow.guard.answered()  # it may stay as long as its token is good, and gets no receipt
            return self._outbox.drain()
        if self._opening is not None:
            self._opening.unknown(refusal, now)
        return self._outbox.drain()

    def paused(self, leg: Leg) -> None:
        """The leg is not read from any more, by back-pressure or by a `Pause`."""
        leg.heartbeat.paused()

    def resumed(self, leg: Leg, now: float) -> list[Effect]:
        """The leg is read from again."""
        if leg.state is not State.LEAVING:
            leg.heartbeat.resumed(now)
        if self._connection is not None:
            return [Wake(self._connection.deadline)]
        return [Wake(inf if self._opening is None else self._opening.deadline)]

    def woke(self, now: float) -> list[Effect]:
        """The time of the last `Wake` has come."""
        connection = self._connection
        if connection is not None:
            if now >= connection.shutdown.expires:
                return self.end(EXPIRED, now)
            return self._act(connection.woke, now)
        if self._opening is not None and not self.client.closed:
            self._opening.woke(now)
        return self._outbox.drain()

    def stop_began(self, now: float) -> list[Effect]:
        """The service begins to stop: the client is read from no more. When all that it sent is where it shall be, it
        is sent an ERROR and the session ends; call `stopped` if that takes too long.
        """
        connection = self._connection
        if connection is None:
            return self.stopped(now)
        return [] if self.over else self._act(connection.stop_began, now)

    def stopped(self, now: float) -> list[Effect]:
        """The service stops: the client is sent an ERROR, and all legs are closed. What is lost by it is counted."""
        connection = self._connection
        if connection is None:
            return self.end(STOPPING, now)
        return [] if self.over else self._act(connection.shutdown.cut, STOPPING)

    def killed(self, now: float) -> list[Effect]:
        """An operator ends the session: in good order, see `end`; at once where its end has begun."""
        return self._kill(KILLED, now)

    def crowded(self, now: float) -> list[Effect]:
        """The relay is short of memory, and keeps much of this client: as `killed`, but that the ERROR says so."""
        self.counters["sessions_crowded"] += not self.over
        return self._kill(CROWDED, now)

    def _kill(self, why: Reason, now: float) -> list[Effect]:
        connection = self._connection
        if connection is None or not connection.shutdown.begun:
            return self.end(why, now)
        return [] if self.over else self._act(connection.shutdown.cut, why)

    def end(self, why: Reason, now: float) -> list[Effect]:
        """The session has to end, for this reason. Its client is read from no more. What it sent is delivered and its
        RECEIPTs reach it, within `disconnect_timeout`; then it is sent the ERROR, and all legs are closed.
        """
        connection = self._connection
        if self.over:
            return []
        if connection is not None:
            return self._act(connection.end, why, now)
        if self._opening is not None:
            self._opening.fail(StompError(why.message, why.detail))
        return self._outbox.drain()

    def leave(
        self, broker: Broker, now: float, within: float, to: Broker | None = None, *, may_stay: bool = False
    ) -> list[Effect]:
        """The session shall leave this broker at a quiet moment, or after `within` seconds, and find another one:
        `to`, if it can. With `may_stay` it stays where there was no such moment in time.
        """
        connection = self._connection
        if connection is None:
            return []
        return self._act(connection.leave, broker, now, within, to, may_stay=may_stay)

    def ruled(self, rules: AccessRules | None, now: float) -> list[Effect]:
        """These are the rules of its listener from now on. The session ends where it has a subscription that they do
        not allow.
        """
        if rules == self._rules:
            return []
        self._rules = rules
        connection = self._connection
        if connection is None:
            return []
        return self._act(connection.ruled, rules, self.identity, now)

    def reconsidered(self, now: float) -> list[Effect]:
        """A broker came back: links that wait for the time of their next attempt try at once."""
        connection = self._connection
        return [] if connection is None else self._act(connection.reconsidered, now)

    def blocked(self, leg: Leg) -> None:
        """A broker's connection takes no more for now."""
        if self._connection is not None and not leg.closed:
            self._connection.blocked(leg)

    def unblocked(self, leg: Leg, now: float) -> list[Effect]:
        """It takes more again."""
        connection = self._connection
        return [] if connection is None or leg.closed else self._act(connection.unblocked, leg, now)

    def limited(self, address: str | None, now: float) -> list[Effect]:
        """The listener's limits on how fast clients send have changed; `address` as the limiter wants it now."""
        connection, self.address = self._connection, address
        return [] if connection is None else self._act(self._limit, connection, now)

    def _limit(self, connection: ClientConnection, now: float) -> None:
        connection.limit(pace_of(self.limiter, self.address, self.identity.user, now), now)

    # How long it waits

    def watch(self, looks: Looks, now: float) -> list[Effect]:
        """Watch the session until there is a sample of how long it waits for RECEIPTs and ACKs. Call `look` about once
        a second as long as it is `watched`. Does nothing where its client is within a frame, or not connected.
        """
        connection, client = self._connection, self.client
        if connection is None or client.state is not State.CONNECTED or client.decoder.buffered:
            return []
        limits = client.decoder.limits
        self._sample = Sample(
            self.listener, connection.flow.links, connection.session.dialect, limits, looks, now
        )
        return self._act(lambda: None)

    @property
    def watched(self) -> bool:
        """Whether it is watched."""
        return self._sample is not None

    def look(self, now: float) -> list[Effect]:
        """Time has passed: watch the session no longer where that is not worth it."""
        sample = self._sample
        if sample is None or not (sample.over(now) or self.client.state is not State.CONNECTED):
            return []
        self._outbox.put(*sample.given_up(now))
        self._sample = None
        return self._act(lambda: None)

    def _watch(self, sample: Sample, leg: Leg, data: bytes, now: float) -> None:
        """Show the sample what came, and what the client is sent for that."""
        try:
            if leg is self.client and data:
                self._outbox.put(*sample.from_client(data, now))
            for sent in self._outbox.sent_to(self.client):
                self._outbox.put(*sample.to_client(sent, now))
        except StompError:
            self._sample = None  # whoever reads it says so
        if sample.over(now):
            self._sample = None

    # What no input may raise

    def _act(
        self, act: Callable[Arguments, None], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> list[Effect]:
        """Return the effects of `act`, called with the rest, or those of `failed` where it raises."""
        try:
            act(*args, **kwargs)
            if self._connection is not None:
                self._connection.settle(passes=self._passes and self._sample is None)
        except Exception as error:
            return self.failed(error)
        return self._outbox.drain()

    def failed(self, error: Exception) -> list[Effect]:
        """Something raised what it must not: a bug. Whatever state that left behind, the session is over: the client is
        sent an ERROR, all legs are closed, and nothing is kept. What was asked for until then is still done, and what
        brokers have not confirmed is counted.
        """
        outbox, connection, client = self._outbox, self._connection, self.client
        self.counters["faults"] += 1
        outbox.put(Report(error))
        self._connection = self._opening = None
        lost = 0
        if connection is not None:
            for end in (
                lambda: connection.shutdown.lose(connection.flow.links),
                *(link.end for link in connection.flow.links),
            ):
                try:
                    end()
                except Exception as another:
                    outbox.put(Report(another))
            lost = connection.shutdown.lost
        if not client.closed:
            fault = StompError("the relay failed", f"the session is over; connect again; {LOST}")
            dialect = V1_0 if connection is None else connection.session.dialect
            if not client.gone:
                self.counters["errors_sent"] += 1
                outbox.put(Send(client, complain(fault, dialect)))
            outbox.put(
                failed(End.RELAY.value, fault), replace(stopped("the relay failed", lost), quiet=False)
            )
        for leg in outbox.legs:
            if not leg.closed:
                leg.enter(State.CLOSED)
            outbox.put(Close(leg, How.LINGER))  # which brings brokers what they were sent
        outbox.put(Wake(inf))
        return outbox.drain()

    # Until the client is in

    def _let_in(self, let: Let, now: float) -> None:
        """Join the client to its brokers, and see to what it did meanwhile."""
        client, listener, opening = self.client, self.listener, self._opening
        self.identity = let.identity
        self._opening = None
        session = Session(
            self.name,
            let.dialect,
            listener.unacknowledged,
            self.counters,
            transactions=listener.transactions,
            subscriptions=listener.subscriptions,
            kept=Budget(listener.budget),
            now=now,
        )
        renewal = None if listener.renew is None else Renewal(listener.renew, client, self._outbox)
        guard = UNGUARDED
        if self._rules is not None or renewal is not None:
            guard = Guard(self._rules, let.identity, self.counters, renewal)
        flow = join(client, listener, let.offer, session, self._outbox, self._chance, guard, self.counter)
        connection = self._connection = ClientConnection(
            client, listener, let.offer, session, flow, self._outbox
        )
        connection.shutdown.expires = let.identity.until
        self._limit(connection, now)
        connection.begin(now, paused=opening is not None and opening.paused)
        if opening is not None and opening.left is not None:
            connection.lost(client, opening.left, now)
        elif opening is not None and opening.half_closed:
            connection.half_closed(now)
