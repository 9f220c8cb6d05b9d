"""The process around a service: its start, signals, reading the configuration anew, notices to systemd, and memory."""

import ctypes
import gc
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.task import LoopingCall

from stomprelay.config import ConfigError
from stomprelay.config.change import ConfigSource
from stomprelay.service.log import logger
from stomprelay.service.network.endpoints import BadEndpoint, CannotStart

_log: Final = logger()

# Signals

HURRY: Final = ("SIGTERM", "SIGINT")
"""The signals that end all sessions at once if the relay is stopping already."""
UNUSED: Final = {
    "SIGHUP": "the configuration is read anew by the process that was started with it, which tells the others",
    "SIGUSR1": "no log file is open that could begin anew; brokers are paused by `stomprelay pause`",
    "SIGUSR2": "brokers are resumed by `stomprelay resume`",
}
"""Signals that would end a process without a handler. At such a signal the relay logs its text and continues."""


class Signals(Service):
    """Calls an action in the reactor's next turn after its signal, from `startService` to `stopService`. `actions` has
    the actions by the names of signals. A signal that was blocked before the start is unblocked. Outside the main
    thread no handler is installed. `spare`: an existing handler stays, such as that of `twistd` for SIGUSR1; only a
    signal that is ignored or has the default handling gets its action.
    """

    def __init__(self, reactor: Any, actions: Mapping[str, Callable[[], None]], spare: bool = False) -> None:
        self._reactor = reactor
        self._actions = actions
        self._spare = spare
        self._before: dict[int, tuple[Any, Any]] = {}

    def startService(self) -> None:
        """Install the handlers, in the main thread only."""
        super().startService()
        if not IReactorFromThreads.providedBy(self._reactor):
            return
        for name, action in self._actions.items():
            number = getattr(signal, name, None)
            if number is None:
                continue
            if not self._spare or signal.getsignal(number) in (signal.SIG_DFL, signal.SIG_IGN):
                installed = self._installed(action)
                try:
                    self._before[number] = (installed, signal.signal(number, installed))
                except ValueError:  # not the main thread
                    return
            if hasattr(signal, "pthread_sigmask"):
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])

    def _installed(self, action: Callable[[], None]) -> Callable[[int, object], None]:
        def received(_number: int, _frame: object) -> None:
            if self.running:
                # Python calls this between any two instructions, and the reactor may be asleep.
                self._reactor.callFromThread(self._run, action)

        return received

    def _run(self, action: Callable[[], None]) -> None:
        if self.running:
            action()

    def stopService(self) -> None:
        """Restore the old handlers, except where a handler was replaced meanwhile."""
        super().stopService()
        for number, (installed, before) in self._before.items():
            if signal.getsignal(number) is installed:
                signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before.clear()


def unused(reactor: Any) -> Signals:
    """Return the service that logs a line for each signal in `UNUSED`."""

    def answer(name: str, text: str) -> Callable[[], None]:
        return lambda: _log.warn("{signal}: {text}", signal=name, text=text)

    return Signals(reactor, {name: answer(name, text) for name, text in UNUSED.items()}, spare=True)


def start(service: Any, reactor: Any) -> None:
    """Start the service. The reactor will stop the service before it stops itself. Run the reactor next."""
    service.privilegedStartService()
    service.startService()
    reactor.addSystemEventTrigger("before", "shutdown", service.stopService)


# Reading the configuration anew


class NotReloaded(Exception):
    """The configuration cannot be used, and nothing has changed; the text is one line that says why."""


class Reloaded(NamedTuple):
    """The result of a reload: the keys that differ, and the keys that take effect only after a restart."""

    changed: tuple[str, ...]
    restart: tuple[str, ...]


class Reloads(MultiService):
    """Reads the configuration from `source` again and uses it, at SIGHUP and when `reload` is called, one reload at a
    time. `use` gets the source as it is now, uses it, and returns what changed. If the configuration cannot be used,
    `use` raises `ConfigError`, `BadEndpoint` or `CannotStart`. `notice` is called with True before a reload, with False
    after it.
    """

    def __init__(
        self,
        reactor: Any,
        source: ConfigSource,
        use: Callable[[ConfigSource], "Reloaded | Deferred[Reloaded]"],
        notice: Callable[[bool], None],
    ) -> None:
        super().__init__()
        self._source = source
        self._use = use
        self._notice = notice
        self._lock = DeferredLock()
        self._refused = False
        Signals(reactor, {"SIGHUP": self._at_signal}, spare=True).setServiceParent(self)

    def stopService(self) -> Any:
        """Refuse all reloads from now on, and restore the earlier handler of SIGHUP."""
        self.refuse()
        return super().stopService()

    def refuse(self) -> None:
        """Refuse all reloads from now on, because the relay stops."""
        self._refused = True

    def _at_signal(self) -> None:
        _ = self.reload().addErrback(lambda failure: failure.trap(NotReloaded))

    def reload(self) -> Deferred[Reloaded]:
        """Read the configuration, use it, and log what changed. The Deferred fails with `NotReloaded`."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self._reload()))

    async def _reload(self) -> Reloaded:
        try:
            found = await self._read()
        except NotReloaded as error:
            _log.error("the configuration is not reloaded: {error}", error=str(error))
            raise
        except Exception:
            _log.failure("the configuration is not reloaded")
            raise NotReloaded("the relay failed; see its log") from None
        what = f"changed: {', '.join(found.changed)}" if found.changed else "nothing changed"
        _log.info("the configuration is reloaded; {what}", what=what)
        for key in found.restart:
            _log.warn("{key}: needs a restart", key=key)
        return found

    async def _read(self) -> Reloaded:
        if self._refused:
            raise NotReloaded("the relay stops")
        self._notice(True)
        try:
            with self._source.here():
                found = self._use(self._source.again())
            return await found if isinstance(found, Deferred) else found
        except ConfigError as error:
            raise NotReloaded(str(error)) from None
        except (BadEndpoint, CannotStart) as error:
            file = self._source.path
            raise NotReloaded(str(error) if file is None else f"{file}: {error}") from None
        finally:
            self._notice(False)


# systemd

EVERY: Final = 5.0
"""Seconds between two checks whether the status has changed."""
WATCHDOG: Final = "WATCHDOG_USEC"
"""The environment variable with the time within which systemd expects a watchdog notice."""


class Notify(Service):
    """Notifies systemd (`sd_notify(3)`) that the relay is ready, is alive, and stops, and of its status in one line. If
    there is a `tell`, `tell` gets these notices instead. Start this service last. Call `stopping` before anything is
    stopped. Without `tell` and without systemd's socket nothing is sent.
    """

    def __init__(
        self,
        status: Callable[[], str],
        reactor: Any,
        environment: Mapping[str, str] = os.environ,
        tell: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        self._tell = tell
        self._status = status
        self._sent = ""
        name = environment.get("NOTIFY_SOCKET", "")
        # A path, or an abstract name.
        self._address = {"/": name, "@": f"\0{name[1:]}"}.get(name[:1])
        period = watchdog(environment)
        self._watched = period is not None
        self._every = EVERY if period is None else min(EVERY, period / 2)
        loop = self._loop = LoopingCall(self._check)
        loop.clock = reactor

    def startService(self) -> None:
        """Tell systemd that the relay is ready: everything listens."""
        super().startService()
        if self._address is not None or self._tell is not None:
            self._sent = self._status()
            self._send("READY=1", f"STATUS={self._sent}")
            _ = self._loop.start(self._every, now=False)

    def reloading(self, begun: bool) -> None:
        """Notify systemd that the relay begins to read its configuration (`begun`), or that it is ready again."""
        if self.running and begun:
            self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        elif self.running:
            self._send("READY=1")

    def stopping(self, within: float | None = None) -> None:
        """Notify systemd that the relay begins to stop, and may need `within` seconds."""
        longest = [] if within is None else [f"EXTEND_TIMEOUT_USEC={round(within * 1_000_000)}"]
        self._send("STOPPING=1", "STATUS=stopping", *longest)

    def stopService(self) -> None:
        """Send no more notices."""
        super().stopService()
        if self._loop.running:
            self._loop.stop()

    def _check(self) -> None:
        lines = ["WATCHDOG=1"] if self._watched else []
        status = self._status()
        if status != self._sent:
            self._sent = status
            lines.append(f"STATUS={status}")
        if lines:
            self._send(*lines)

    def _send(self, *lines: str) -> None:
        if self._tell is not None:
            self._tell(lines)
            return
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto("\n".join(lines).encode("utf-8"), self._address)
        except OSError as error:
            _log.warn("systemd could not be notified of {lines}: {error}", lines=lines, error=error)


def watchdog(environment: Mapping[str, str]) -> float | None:
    """Return the seconds between systemd's expected watchdog notices; None if it expects none."""
    period, process = environment.get(WATCHDOG, ""), environment.get("WATCHDOG_PID", "")
    if not period.isdigit() or int(period) == 0 or (process and process != str(os.getpid())):
        return None
    return int(period) / 1_000_000


# Descriptors


def raise_descriptor_limit() -> int | None:
    """Raise this process's limit of file descriptors to the largest allowed value, and return it; None if no limit is
    known. The usual limit of 1024 is meant for programs with `select(2)`.
    """
    try:
        import resource
    except ImportError:
        return None
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    except (OSError, ValueError):
        return None
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as error:
            _log.warn(
                "the limit of {soft} file descriptors cannot be raised to {hard}: {error}",
                soft=soft,
                hard=hard,
                error=error,
            )
    return None if soft == resource.RLIM_INFINITY else soft


def open_descriptors() -> int | None:
    """Return how many file descriptors this process has open; None where the system does not tell."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(folder))
        except OSError:
            continue
    return None


# Memory

KEPT: Final = 16 * 1024 * 1024
"""Bytes at the top of the heap that are not given back."""
LARGE: Final = 2 * 1024 * 1024
"""Blocks of at least this many bytes are allocated from the system one by one."""

# glibc's malloc.h
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory: new pages for each large chunk take long. Return False without `mallopt`."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, KEPT)) and bool(mallopt(_M_MMAP_THRESHOLD, LARGE))


def return_freed_memory() -> None:
    """Give freed memory back to the system, which takes some milliseconds for a large heap."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def memory_limit(configured: int | None) -> int:
    """Return how many bytes may be kept of all clients: the configured number, otherwise half of `available`."""
    return available() // 2 if configured is None else configured


def available(root: Path = Path("/")) -> int:
    """Return how many bytes of memory this process may use. The machine and control groups (under `root`) limit it."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for file in _limits(root):
        try:
            text = file.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if text.isdigit() and int(text) > 0:  # else "max": no limit
            found.append(int(text))
    return min(found)


def _limits(root: Path) -> Iterator[Path]:
    """Yield the files that may hold a memory limit of this process's control groups, version 2 or 1, up to `root`."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        group = base / path.lstrip("/")
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        for folder in (group, *group.parents):
            yield folder / name
            if folder == base:
                break


def collect_rarely() -> None:
    """Let Python's garbage collector run rarely, and never examine the present objects. Sessions leave no garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5000)  # how many more objects start the collector; Python's default is 700
