"""Hands a relay's sockets over to the process that takes its place, so that no client is refused during an upgrade.

The running process listens on a UNIX socket, `handover`. The new process connects to this socket before it listens. It
gets all listening sockets with their endpoints, and listens on the sockets that it wants, without accepting clients
yet. When the new process is ready, it sends `leave`. Only then the old process accepts no more, leaves the sockets'
paths to the new process, and stops as at SIGTERM. If anything fails before that, the old process continues.

    new     {"do": "take"}                              old     {"places": {"0": ["public", "tcp:61613"], ...}}, sockets
    new     {"do": "leave", "kept": ["0", ...]}         old     {"left": true}
                                                        old     {"refused": "..."}, at any time
"""

import os
import socket
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from signal import SIGTERM, raise_signal
from typing import Any, Final

from twisted.application.service import IServiceCollection, MultiService, Service
from twisted.internet.error import ReactorNotRunning
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure

from stomprelay.config.address import quoted, server
from stomprelay.service.log import logger
from stomprelay.service.network.endpoints import (
    BadEndpoint,
    CannotStart,
    ListeningService,
    NamedFactory,
    listening_service,
)
from stomprelay.service.network.passing import (
    BrokenMessage,
    Passage,
    PassedMessage,
    ReactorPassage,
    parse,
    spell,
)
from stomprelay.service.network.sharing import give_up, share

ANSWER: Final = 10.0
"""Seconds that the old process has for each answer."""
WITHIN: Final = 60.0
"""Seconds that the new process has, from the beginning of its connection until it is ready."""
_CREDENTIALS: Final = struct.Struct("3i")
"""Linux's `struct ucred`: process, user, group."""

_log: Final = logger()


def stranger(own: socket.socket) -> int | None:
    """Return the user at the other end of a UNIX socket; None for root, for the relay's own user, and if the system
    does not report the user.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    _, user, _ = _CREDENTIALS.unpack(own.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return None if user in (0, os.geteuid()) else int(user)


def listening(services: IServiceCollection) -> Iterator[ListeningService]:
    """Yield the services that listen on an endpoint of this process, except systemd's sockets, which systemd keeps."""
    for each in services:
        if isinstance(each, ListeningService):
            if server(each.description).kind != "systemd":
                yield each
        elif isinstance(each, MultiService):
            yield from listening(each)


def _place(endpoint: str) -> tuple[str, ...]:
    """Return where an endpoint listens: path, or interface and port. TLS and PROXY headers make no difference."""
    parts = server(endpoint)
    if parts.kind == "unix":
        return "unix", parts.arguments["address"]
    if parts.kind not in ("tcp", "tcp6", "ssl", "tls"):
        return "other", endpoint
    interface = parts.arguments.get("interface") or ("::" if parts.kind == "tcp6" else "0.0.0.0")
    return "internet", interface, parts.arguments.get("port", endpoint)


class _Offer(LineOnlyReceiver):
    """The connection of one process that asks for the sockets."""

    delimiter = b"\n"
    transport: Any

    def __init__(self, handover: "Handover", reactor: Any) -> None:
        self._handover = handover
        self._reactor = reactor
        self._late: Any = None
        self._given: dict[str, ListeningService] = {}

    def connectionMade(self) -> None:
        """Refuse a process of another user, and each process that comes while another one is taking over."""
        user = stranger(self.transport.socket)
        reason = f"user {user} must not" if user is not None else self._handover.begin(self)
        if reason:
            self.refuse(reason)
        else:
            self._late = self._reactor.callLater(WITHIN, self.refuse, f"it was not ready in {WITHIN:g} s")

    def lineReceived(self, line: bytes) -> None:
        """Handle a request: hand the sockets over, or leave them to the other process."""
        if self._late is None:
            return
        try:
            said, _ = parse(line)
        except BrokenMessage as error:
            self.refuse(str(error))
            return
        given = [*self._given]
        match said:
            case {"do": "take"} if not given:
                self._give()
            case {"do": "leave", "kept": [*kept]} if given and all(each in given for each in kept):
                self._handover.left()
                self.leave(kept)
            case _:
                self.refuse("what came is no message")

    def _give(self) -> None:
        self._given = {str(number): each for number, each in enumerate(self._handover.listening())}
        for each in self._given.values():
            assert each.port is not None
            self.transport.sendFileDescriptor(share(each.port))
        places = {key: [each.name, each.description] for key, each in self._given.items()}
        self.transport.write(spell({"places": places}, places))
        _log.info("handover: another process was given {count} sockets", count=len(places))

    def leave(self, kept: Iterable[str]) -> None:
        """Leave these sockets to the other process, and report that to it."""
        for key in kept:
            if (port := self._given[key].port) is not None:
                give_up(port)
        self._end({"left": True})

    def stop(self) -> None:
        """This process stops: leave the offered sockets to the other process. If no sockets were offered, refuse."""
        if self._given:
            self.leave(self._given)
        else:
            self.refuse("it stops")

    def refuse(self, reason: str) -> None:
        """Tell the other process why it does not get the sockets; this process continues."""
        _log.warn("handover: a process that asked is refused: {reason}", reason=reason)
        self._end({"refused": reason})

    def _end(self, said: Mapping[str, Any]) -> None:
        self._settle()
        self.transport.write(spell(said))
        self.transport.loseConnection()

    def _settle(self) -> None:
        if self._late is not None and self._late.active():
            self._late.cancel()
        self._late = None
        self._handover.end(self)

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Record that the other process has ended, or has the sockets."""
        if self._late is not None:
            _log.warn("handover: the other process is gone; this one continues")
            self._settle()


class Handover(MultiService):
    """Hands the sockets of `relay` over at a UNIX socket of this path, and then stops this process. `busy`: why no
    sockets may be handed over now, or "".
    """

    def __init__(self, path: str, relay: MultiService, reactor: Any) -> None:
        super().__init__()
        self._path = path
        self._relay = relay
        self._reactor = reactor
        self._offer: _Offer | None = None
        self.busy = ""
        endpoint = f"unix:{quoted(path)}:mode=600:lockfile=0"
        offers: Any = NamedFactory("handover", lambda _: _Offer(self, reactor))
        self._door = listening_service(reactor, "handover", endpoint, offers)
        self._door.setServiceParent(self)

    def privilegedStartService(self) -> None:
        """Listen at the path, unless another relay listens there. Raises `CannotStart`."""
        if not self._door.adopted:
            self._clear()
        super().privilegedStartService()

    def _clear(self) -> None:
        """Remove a socket file that no process listens on. Raises `CannotStart` if anything else is there."""
        try:
            is_socket = stat.S_ISSOCK(os.lstat(self._path).st_mode)
        except OSError:
            return  # no file is there, or the attempt to listen reports the error
        text = f"handover: {self._path}: is no socket"
        if is_socket:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(ANSWER)
                try:
                    probe.connect(self._path)
                    text = f"handover: {self._path}: another relay hands over there: take over, or name another path"
                except ConnectionRefusedError:
                    os.unlink(self._path)
                    return
                except OSError as error:
                    text = f"handover: {self._path}: {error.strerror}"
        _log.critical("{text}", text=text)
        raise CannotStart(text)

    def startService(self) -> None:
        """Let other processes ask for the sockets from now on."""
        super().startService()
        # This trigger is added before the one that stops the service, so it is called first.
        self._reactor.addSystemEventTrigger("before", "shutdown", self._stopping)

    def listening(self) -> list[ListeningService]:
        """Return the services whose sockets may be handed over."""
        return [each for each in listening(self._relay) if each.port is not None]

    def begin(self, offer: _Offer) -> str:
        """Record a process that asks for the sockets, and return why the process is refused; "" if it is accepted."""
        if self.busy or self._offer is not None:
            return self.busy or "another process takes over"
        self._offer = offer
        return ""

    def end(self, offer: _Offer) -> None:
        """Record that a process no longer asks for the sockets."""
        if self._offer is offer:
            self._offer = None

    def left(self) -> None:
        """Stop this process: another one has taken over."""
        _log.info("handover: another process has taken over; this one stops")
        self.busy = "it stops"
        with suppress(ReactorNotRunning):
            self._reactor.stop()

    def _stopping(self) -> None:
        """Before anything is closed, leave the sockets to the process to which they were offered."""
        self.busy = "it stops"
        if self._offer is not None:
            self._offer.stop()

    def take_over(self) -> "TakenOver | None":
        """Have the relay listen on the sockets of the running relay. Return the service to start when the relay is
        ready; None if no other relay runs. Raises `BadEndpoint` if the running relay hands nothing over.
        """

        def refused(reason: str) -> BadEndpoint:
            return BadEndpoint(f"handover: {self._path}: the relay that runs does not hand over: {reason}")

        own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        own.settimeout(ANSWER)
        passage = Passage(own)
        try:
            own.connect(self._path)
        except (FileNotFoundError, ConnectionRefusedError):
            passage.close()
            _log.info(
                "handover: no relay answers at {path}: this relay opens its sockets itself", path=self._path
            )
            return None
        except OSError as error:
            passage.close()
            raise BadEndpoint(f"handover: {self._path}: {error.strerror or error}") from None
        try:
            # Root may take over from any user, for example from a relay that gave up root's privileges.
            if (user := stranger(own)) is not None and os.geteuid():
                raise refused(f"it is of user {user}")
            passage.put({"do": "take"})
            with suppress(BrokenPipeError):  # the refusal was sent before, and is received next
                passage.flush()
            while not (found := passage.receive()):
                pass
            passed = found[0]
            if "refused" in passed.said:
                raise refused(str(passed.said["refused"]))
            kept = _adopt(passed, listening(self._relay))
        except (BrokenMessage, OSError) as error:
            passage.close()
            raise refused("no answer" if isinstance(error, TimeoutError) else str(error)) from None
        except EOFError:
            passage.close()
            raise refused("it is gone") from None
        except BadEndpoint:
            passage.close()
            raise
        _log.info(
            "handover: {kept} of the {count} sockets of the relay that runs are taken",
            kept=len(kept),
            count=len(passed.sockets),
        )
        self.busy = "it takes over itself"
        return TakenOver(passage, kept, self, self._reactor)

    def took_over(self, how: str, count: int) -> None:
        """Log that the earlier relay has left or is gone, and hand over to others from now on."""
        self.busy = ""
        _log.info("handover: {how}; this relay has {count} sockets", how=how, count=count)


@dataclass(eq=False, repr=False)
class TakenOver(Service):
    """The sockets that a relay got from the earlier relay. `_passage` is the connection to the earlier relay; `_kept`
    has the services by the keys of their sockets. When this service starts, it asks the earlier relay to leave.
    """

    _passage: Passage
    _kept: Mapping[str, ListeningService]
    _handover: Handover
    _reactor: Any
    _late: Any = None
    _settled: bool = False

    def startService(self) -> None:
        """Ask the earlier relay to leave, as soon as the reactor runs."""
        super().startService()
        self._reactor.callWhenRunning(self._leave)

    def _leave(self) -> None:
        conversation = ReactorPassage(self._reactor, self._passage, self._answered, self._ended)
        conversation.send({"do": "leave", "kept": list(self._kept)})
        self._late = self._reactor.callLater(ANSWER, self._ended, f"no answer within {ANSWER:g} s")

    def _answered(self, passed: PassedMessage) -> None:
        passed.close()
        reason = passed.said.get("refused")
        if reason is None:
            self._settle("the relay before has left")
        elif not self._settled:
            self._settled = True
            self._late.cancel()
            _log.critical("handover: the relay that runs goes on, this one ends: {reason}", reason=reason)
            raise_signal(SIGTERM)

    def _ended(self, why: str) -> None:
        self._settle(f"the relay before is gone {why}".rstrip())

    def _settle(self, how: str) -> None:
        if self._settled:
            return
        self._settled = True
        if self._late.active():
            self._late.cancel()
        for each in self._kept.values():
            each.keep()
        self._handover.took_over(how, len(self._kept))


def _adopt(passed: PassedMessage, services: Iterable[ListeningService]) -> dict[str, ListeningService]:
    """Have each service listen on a socket for its place, preferably on the socket of its own name. Close the sockets
    that no service needs. Return the services by the keys of their sockets. Raises `BrokenMessage`.
    """
    try:
        known = {key: (str(name), _place(place)) for key, (name, place) in passed.said["places"].items()}
    except (LookupError, TypeError, ValueError, AttributeError):
        passed.close()
        raise BrokenMessage("what came is no message") from None
    kept: dict[str, ListeningService] = {}
    for each in services:
        place = _place(each.description)
        found = [key for key, (_, there) in known.items() if there == place and key in passed.sockets]
        found.sort(key=lambda key: known[key][0] != each.name)
        if found:
            key = found[0]
            del known[key]
            each.adopt(os.dup(passed.sockets[key].fileno()))
            kept[key] = each
    passed.close()
    return kept
