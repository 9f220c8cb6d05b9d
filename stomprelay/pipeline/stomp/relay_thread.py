"""The relay's own core as a client. The core bridges versions, sends heart-beats and fails over.

The core's client is this process. Frames go into the core and come out of the core as bytes. An event loop in a thread
connects the core with the brokers and carries out the effects that the core asks for.
"""

import asyncio
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from math import inf
from typing import Any, Final

from stomprelay.pipeline.stomp.sockets import ASKED, PRESSURE, LegConnection, SocketAddress, spell
from stomprelay.relay import inputs
from stomprelay.relay.effects import Effect, Open, Report
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Close, GiveWay, How, Note, Pause, Resume, Send, Wake
from stomprelay.session.leg import Leg, LegState
from stomprelay.session.reasons import EXPLAINING, WARNINGS, spell_fault

ROOM: Final = 8 * 1024 * 1024
"""The most bytes that may wait in each direction."""
_log: Final = logging.getLogger("stomprelay.stomp")
REASONS: Final = 3
"""The number of last notes that are kept, to explain why a session ended."""


class ClientQueues:
    """Bytes to the core (inward) and to the client (outward). Methods may be called in any thread."""

    def __init__(self) -> None:
        self.closed = False
        self._inward: deque[bytes] = deque()
        self._inward_size = 0
        self._outward: list[bytes] = []
        self._outward_size = 0
        lock = threading.Lock()
        self._room = threading.Condition(lock)
        self._news = threading.Condition(lock)

    def feed(self, data: bytes) -> None:
        """Add bytes from the client. Waits while `ROOM` is used up. After `close`, the bytes are dropped."""
        with self._room:
            while self._inward_size >= ROOM and not self.closed:
                self._room.wait()
            if data and not self.closed:
                self._inward.append(data)
                self._inward_size += len(data)

    def next_inward(self) -> bytes:
        """Remove and return the oldest bytes from the client; empty bytes if there are none."""
        with self._room:
            if not self._inward:
                return b""
            data = self._inward.popleft()
            self._inward_size -= len(data)
            self._room.notify_all()
            return data

    def put_outward(self, data: bytes) -> bool:
        """Add bytes for the client. Return whether `ROOM` is used up: then stop reading from brokers."""
        with self._news:
            self._outward.append(data)
            self._outward_size += len(data)
            self._news.notify_all()
            return self._outward_size >= ROOM

    def take(self, timeout: float) -> tuple[list[bytes], bool]:
        """Wait up to `timeout` seconds for bytes. Return all bytes for the client, and whether `ROOM` was used up."""
        with self._news:
            if not self._outward and not self.closed:
                self._news.wait(timeout)
            taken, self._outward = self._outward, []
            full, self._outward_size = self._outward_size >= ROOM, 0
            return taken, full

    def close(self) -> None:
        """Drop the client's bytes and accept no more. Bytes for the client can still be taken."""
        with self._room:
            self.closed = True
            self._inward.clear()
            self._inward_size = 0
            self._room.notify_all()
            self._news.notify_all()


class RelayThread:
    """One session of the relay's core. Call `start`, then `feed` and `take`, in any thread. End the session with
    `disconnect` or `abort`, then call `join`. When the session is `over`, no more bytes come, and `why` has the reason.
    """

    def __init__(self, listener: Listener, name: str, endpoints: dict[Broker, SocketAddress]) -> None:
        self._relay = Relay(listener, name.encode(), Counters(), random.random)
        self._endpoints = endpoints
        self._connections: dict[Leg, LegConnection] = {}
        self._leaving: set[LegConnection] = set()
        self._attempts: dict[Leg, asyncio.Task[None]] = {}
        self._reported_full: set[Leg] = set()
        self._behind: deque[Leg] = deque()
        self._reasons: deque[str] = deque(maxlen=REASONS)
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False
        self._queues = ClientQueues()
        self._loop: asyncio.AbstractEventLoop
        self._ended: asyncio.Future[None]
        self._thread = threading.Thread(target=self._run, name=f"stomp {name}", daemon=True)

    # From any thread

    def start(self) -> None:
        """Start the thread. The caller must pass a CONNECT to `feed` next."""
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._failed)
        self._ended = self._loop.create_future()
        self._loop.call_soon(self._handle, inputs.Opened())
        self._thread.start()

    @property
    def over(self) -> bool:
        """Return whether the session has ended."""
        return self._queues.closed

    def feed(self, data: bytes) -> None:
        """Pass bytes to the core. Waits while too many bytes are unread. When `over` is True, the bytes are dropped."""
        self._queues.feed(data)
        self._soon(self._happened)

    def take(self, timeout: float) -> list[bytes]:
        """Wait up to `timeout` seconds for bytes. Return the bytes for the client, perhaps none."""
        taken, full = self._queues.take(timeout)
        if full:
            self._soon(self._relieve)
        return taken

    @property
    def has_brokers(self) -> bool:
        """Return whether the session is connected to a broker of each group, apart from groups that it has given up."""
        links = [link for link in self._relay.links if not link.ended]
        return bool(links) and all(link.up for link in links)

    @property
    def cumulative(self) -> bool:
        """Return whether no broker is missing, and the RECEIPTs of all brokers also confirm earlier SENDs."""
        brokers = [link.broker for link in self._relay.links]
        profiles = [None if each is None else each.profile for each in brokers]
        return bool(profiles) and all(each is not None and each.cumulative for each in profiles)

    def disconnect(self) -> None:
        """Report to the core that the client's connection ended. Frames of the client are still delivered."""

        def leave() -> None:
            self._read_client()
            self._handle(inputs.Lost(self._relay.client, "it is done"))

        self._soon(leave)

    def abort(self) -> None:
        """End the session at once. Bytes that wait are not sent."""
        self._soon(self._end)

    def join(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the thread to end. Return whether the thread has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def why(self) -> str:
        """Return the last notes of the core and of the sockets, which explain why the session ended."""
        return "; ".join(self._reasons)

    def _soon(self, what: Callable[[], None]) -> None:
        """Call `what` in the session's thread, unless the thread has ended."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(what)

    # The thread

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._live())
        except Exception as error:
            _log.exception("the STOMP client failed")
            self._reasons.append(f"{type(error).__name__}: {error}")
        finally:
            self._queues.close()
            self._loop.close()

    async def _live(self) -> None:
        try:
            await self._ended
        finally:
            for leg in [*self._connections]:
                self._close(leg, How.ABORT)
            for each in [*self._leaving]:
                each.close(How.ABORT)
            while self._leaving or self._attempts:
                await asyncio.sleep(0)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End the session because of an error in a call of the loop."""
        error = context.get("exception")
        if error is None or self._ended.done():
            loop.default_exception_handler(context)
        else:
            self._ended.set_exception(error)

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _handle(self, happened: inputs.Input) -> None:
        self._happened(self._relay.handle(happened, time.monotonic()))

    def _happened(self, effects: Iterable[Effect] = ()) -> None:
        """Perform these effects. Then read from the client, report slow brokers, and end the session if it is over."""
        self._perform(effects)
        self._read_client()
        self._report_full()
        if self._relay.over and not self._connections and not self._leaving:
            self._end()

    def _read_client(self) -> None:
        """Pass the client's bytes to the core. A `coupled` core gets no bytes while a broker takes bytes too slowly."""
        relay = self._relay
        while not self._paused and not relay.client.closed:
            if relay.coupled and any(each.full for each in self._connections.values()):
                return
            data = self._queues.next_inward()
            if not data:
                return
            self._perform(relay.received(relay.client, data, time.monotonic()))

    def _report_full(self) -> None:
        """Report to the core which brokers became slow or fast again. To a `coupled` core, report no slow broker."""
        coupled = self._relay.coupled
        self._reported_full &= self._connections.keys()
        for leg, connection in [*self._connections.items()]:
            known = leg in self._reported_full
            full = connection.full and (known or not coupled)
            if full is not known:
                self._reported_full ^= {leg}
                told = inputs.Blocked(leg) if full else inputs.Unblocked(leg)
                self._perform(self._relay.handle(told, time.monotonic()))

    def _relieve(self) -> None:
        """Read from brokers again, because there is room for their bytes."""
        for leg in [*self._connections]:
            self._release(leg, PRESSURE)
        self._happened()

    # Effects

    def _perform(self, effects: Iterable[Effect]) -> None:
        self._carry_out(effects)
        while self._behind:  # the thread serves this session alone: nobody else waits for a turn
            leg = self._behind.popleft()
            self._carry_out(self._relay.handle(inputs.GaveWay(leg), time.monotonic()))

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        client = self._relay.client
        for effect in effects:
            match effect:
                case Send(leg=leg, data=data):
                    if leg is client:
                        self._to_client(data)
                    elif leg in self._connections:
                        self._connections[leg].write(data)
                case Open():
                    self._open(effect)
                case Close(leg=leg, how=how):
                    self._close(leg, how)
                case Pause(leg=leg):
                    self._hold(leg, ASKED)
                case Resume(leg=leg):
                    self._release(leg, ASKED)
                case GiveWay(leg=leg):
                    self._behind.append(leg)
                case Wake(at=at):
                    if self._timer is not None:
                        self._timer.cancel()
                    self._timer = None if at == inf else self._loop.call_at(at, self._handle, inputs.Woke())
                case Note(event=event, text=text):
                    if event in EXPLAINING:
                        self._reasons.append(text)
                    level = logging.WARNING if event in WARNINGS else logging.INFO
                    _log.log(level, "%s: %s", event.value, text)
                case Report(error=error):
                    _log.error("%s", spell_fault(error))

    def _hold(self, leg: Leg, reason: int) -> None:
        """Stop reading from a leg for a reason. Report this to the core, or the leg's broker would count as silent."""
        if leg is self._relay.client:
            self._paused = True
            self._perform(self._relay.handle(inputs.Paused(leg), time.monotonic()))
        elif leg in self._connections and self._connections[leg].hold(reason):
            self._perform(self._relay.handle(inputs.Paused(leg), time.monotonic()))

    def _release(self, leg: Leg, reason: int) -> None:
        if leg is self._relay.client:
            self._paused = False
            self._carry_out(self._relay.handle(inputs.Resumed(leg), time.monotonic()))
        elif leg in self._connections and self._connections[leg].release(reason):
            self._perform(self._relay.handle(inputs.Resumed(leg), time.monotonic()))

    def _to_client(self, data: bytes) -> None:
        if self._queues.put_outward(data):
            for leg in [*self._connections]:
                if leg.state is not LegState.OPENING:
                    self._hold(leg, PRESSURE)

    def _open(self, effect: Open) -> None:
        leg, endpoint = effect.leg, self._endpoints[effect.broker]
        connection = self._connections[leg] = LegConnection(self, leg)
        attempt = self._attempts[leg] = self._loop.create_task(self._connect(leg, connection, endpoint))
        attempt.add_done_callback(lambda _: self._attempts.pop(leg))

    async def _connect(self, leg: Leg, connection: LegConnection, endpoint: SocketAddress) -> None:
        try:
            await connection.open(endpoint, self._relay.listener.upstream.connect_timeout)
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: Python ends
            if self._connections.pop(leg, None) is not None:
                self._handle(inputs.NotConnected(leg, spell(error)))

    def _close(self, leg: Leg, how: How) -> None:
        if leg is self._relay.client:
            self._queues.close()
            return
        connection = self._connections.pop(leg, None)
        if connection is None:
            return
        if connection.close(how):
            self._leaving.add(connection)
        elif leg in self._attempts:
            self._attempts[leg].cancel()

    # What connections report

    def made(self, leg: Leg) -> None:
        """Report to the core that a broker is connected."""
        self._handle(inputs.BrokerConnected(leg))

    def received(self, leg: Leg, data: bytes) -> None:
        """Pass bytes from a broker to the core."""
        self._happened(self._relay.received(leg, data, time.monotonic()))

    def drained(self) -> None:
        """Continue with the bytes that could not be written before, because a broker was too slow."""
        self._happened()

    def lost(self, leg: Leg, reason: str) -> None:
        """Report to the core that the connection to a broker ended."""
        self._leaving.add(self._connections.pop(leg))
        self._handle(inputs.Lost(leg, reason))

    def gone(self, connection: LegConnection) -> None:
        """Forget a connection that has ended."""
        self._leaving.discard(connection)
        self._happened()
