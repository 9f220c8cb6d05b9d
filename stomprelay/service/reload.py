"""Reading the configuration anew while the relay runs: at SIGHUP, and when an operator asks for it."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredLock

from stomprelay.config import ConfigError
from stomprelay.config.change import Source
from stomprelay.service.log import logger
from stomprelay.service.network.endpoints import BadEndpoint, CannotStart
from stomprelay.service.process import Signals

_log: Final = logger()


class NotReloaded(Exception):
    """The configuration cannot be used, and nothing has changed; the text is one line that says why."""


class Reloaded(NamedTuple):
    """What a reload changed: the keys that differ, and those that have no effect before a restart."""

    changed: tuple[str, ...]
    restart: tuple[str, ...]

    def spell(self) -> str:
        """Return what changed, in a line."""
        return f"changed: {', '.join(self.changed)}" if self.changed else "nothing changed"


class Reloads(Service):
    """Reads the configuration anew from `source` and uses it, at SIGHUP and by `reload`, one after the other. `use`
    gets the source as it is now and returns what changed; it raises `ConfigError`, `BadEndpoint` or `CannotStart` if
    nothing can. `notice` gets True before and False after.
    """

    def __init__(
        self,
        reactor: Any,
        source: Source,
        use: Callable[[Source], "Reloaded | Deferred[Reloaded]"],
        notice: Callable[[bool], None],
    ) -> None:
        self._source = source
        self._use = use
        self._notice = notice
        self._lock = DeferredLock()
        self._refused = False
        self._signals = Signals(reactor, {"SIGHUP": self._at_signal}, spare=True)

    def startService(self) -> None:
        """Begin to heed SIGHUP."""
        super().startService()
        self._signals.startService()

    def refuse(self) -> None:
        """Reload nothing any more: the relay stops. SIGHUP is still caught until `stopService`."""
        self._refused = True

    def stopService(self) -> None:
        """Heed SIGHUP no more."""
        super().stopService()
        self.refuse()
        self._signals.stopService()

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
        _log.info("the configuration is reloaded; {what}", what=found.spell())
        for key in found.restart:
            _log.warn("{key}: needs a restart", key=key)
        return found

    async def _read(self) -> Reloaded:
        if self._refused:
            raise NotReloaded("the relay stops")
        self._notice(True)
        try:
            source = self._source.again()
            with source.here():
                found = self._use(source)
            return await found if isinstance(found, Deferred) else found
        except ConfigError as error:
            raise NotReloaded(str(error)) from None
        except (BadEndpoint, CannotStart) as error:
            file = self._source.path
            raise NotReloaded(str(error) if file is None else f"{file}: {error}") from None
        finally:
            self._notice(False)
