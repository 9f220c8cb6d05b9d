"""The moves of a relay: which phase each is in, on disk and in the running sessions, and how they follow."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Final

from twisted.application.service import Service

from stomprelay.config import Config, ConfigError
from stomprelay.config.table import read_file
from stomprelay.journal.disk import replace
from stomprelay.relay.inputs import Phased
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.move import SHOWN, Kept, Move, MoveRow, NotNow, Phase
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.log import logger
from stomprelay.wire.errors import visible

_log: Final = logger()

LONGEST: Final = 0.01
"""Seconds of a turn of the reactor in which sessions are told of a phase."""
AGAIN: Final = 1.0
"""Seconds until sessions that have not followed are told again."""
Phases = Mapping[str, Kept]
"""What is on disk of each move, by its name."""


def summed(own: Iterable[MoveRow], others: Iterable[MoveRow]) -> tuple[MoveRow, ...]:
    """Return the moves of `own`, each with the sums of its rows in other processes."""
    rows = {row.name: row for row in own}
    for each in others:
        if each.name in rows:
            rows[each.name] = rows[each.name].plus(each)
    return tuple(rows.values())


class Moves(Service):
    """The moves in a configuration. Their phases are read from its `moves_file`. Raises `ConfigError`. `writes`: this
    process writes the file. `clock`: ns since 1970. `tell` gets a notice of what is `announced` here, see `Inherited`.
    """

    def __init__(
        self,
        config: Config,
        sessions: Iterable[RelayDriver],
        runtime: Runtime,
        clock: Callable[[], int],
        *,
        writes: bool,
        tell: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        self._sessions = sessions
        self._runtime = runtime
        self._clock = clock
        self._writes = writes
        self._tell_parent = tell
        self._config = config
        self._told: list[RelayDriver] = []
        self._later: Any = None
        self._unkept: set[Move] = set()
        self._keeps: Any = None
        self.change(config, self.read(config))

    # Configuration

    @staticmethod
    def read(config: Config) -> Phases:
        """Return the phases in a configuration's file. Raises `ConfigError`."""
        if config.moves_file is None or not os.path.lexists(config.moves_file):
            return {}
        try:
            return read_file(config.moves_file, lambda content, _mode: _phases(content))
        except ValueError as error:
            raise ConfigError(f"moves_file: {error}") from None

    def change(self, config: Config, phases: Phases) -> None:
        """Use another configuration; `phases` are from its file. Moves that run already stay as they are."""
        known = set() if config is self._config else set(self._config.moves.values())
        self._config = config
        for name, move in config.moves.items():
            move.announce = self._announced
            if move not in known and name in phases:
                move.enter(*phases[name])

    # Orders

    def order(self, name: str, phase: Phase) -> None:
        """Begin a phase: write the file, then tell all sessions. Raises `NotNow`."""
        move, since = self._config.moves[name], self._clock() / 1e9
        if self._writes:
            begun = copy(move)
            begun.enter(phase, since)
            self._write({**{each.name: each.kept for each in self._config.moves.values()}, name: begun.kept})
        _log.info(
            "move {name}: {phase}, before {before}", name=name, phase=phase.value, before=move.phase.value
        )
        self.enter(name, phase, since)

    def _write(self, phases: Phases) -> None:
        path = self._config.moves_file
        if path is None:
            raise NotNow("moves_file is not set")
        try:
            content = json.dumps({**_said(self.read(self._config)), **_said(phases)}, indent=2) + "\n"
            replace(Path(path), content, 0o600)
        except (OSError, ConfigError) as error:
            raise NotNow(f"{path}: the phase cannot be written: {error}") from None

    def enter(self, name: str, phase: Phase, since: float, stopped: str = "") -> None:
        """Begin a phase that began at that time in the whole relay, unless it has begun here before; see `stop`."""
        move = self._config.moves.get(name)
        if move is not None and (move.phase, move.since) != (phase, since):
            move.enter(phase, since)
            self.tell()
        self.stop(name, since, stopped)

    def stop(self, name: str, since: float, reason: str) -> None:
        """Stop the phase that began at that time, because it goes wrong in another process. No reason: it does not."""
        move = self._config.moves.get(name)
        if move is not None and move.since == since and reason and not move.stopped:
            move.stopped = reason
            self._keep(move)

    def met(self, name: str, since: float, subscriber: str, there: bool | None) -> None:
        """Record a durable subscriber of another process; see `Move`. `since`: when the phase began in which it was."""
        move = self._config.moves.get(name)
        if move is not None:
            move.met(subscriber, there and move.since == since)

    def _keep(self, *moves: Move) -> None:
        """Write what changed in phases that have not ended in a relay that took over. If this is not possible, the next
        relay will find it out anew.
        """
        moves, self._unkept = (*self._unkept, *moves), set()
        if self._writes and self._config.moves_file is not None and moves:
            try:
                before = self.read(self._config)
                self._write(
                    {
                        each.name: each.kept
                        for each in moves
                        if self._config.moves.get(each.name) is each
                        and before.get(each.name, each.kept)[:2] == each.kept[:2]
                    }
                )
            except (NotNow, ConfigError) as error:
                _log.error("what became of moves is not kept: {error}", error=error)

    def _announced(self, move: Move, subscriber: str) -> None:
        """A session stopped a move, or met a durable subscriber: keep that, or tell the process that does."""
        if not subscriber:
            _log.warn(
                "move {name} is stopped in {phase}: {reason}",
                name=move.name,
                phase=move.phase.value,
                reason=visible(move.stopped),
            )
        if self._tell_parent is not None:
            there = move.durable.get(subscriber)
            said = [move.name, move.since, *([subscriber, there] if subscriber else [move.stopped])]
            self._tell_parent([f"{'MET' if subscriber else 'STOPPED'}={json.dumps(said)}"])
        elif not subscriber:
            self._keep(move)
        else:
            self._unkept.add(move)
            if self._keeps is None or not self._keeps.active():
                self._keeps = self._runtime.reactor.callLater(AGAIN, self._keep)

    def tell(self) -> None:
        """Tell all sessions to follow."""
        self._told = [*self._sessions]
        self._tell()

    def _tell(self) -> None:
        """Tell some sessions to follow, and the rest in the next turns; then, later, those that have not followed."""
        if self._later is not None and self._later.active():
            self._later.cancel()
        until = self._runtime.seconds() + LONGEST
        listeners = {each.name: each for each in self._config.listeners}

        def behind(session: RelayDriver) -> Listener | None:
            found = listeners.get(session.relay.listener.name)
            return found if found is not None and session.relay.behind(found) else None

        while self._told and self._runtime.seconds() < until:
            session = self._told.pop()
            if (listener := behind(session)) is not None:
                session.handle(Phased(listener))
        wait = 0.0 if self._told else AGAIN
        self._told = self._told or [*filter(behind, self._sessions)]
        if self._told:
            self._later = self._runtime.reactor.callLater(wait, self._tell)

    def stopService(self) -> None:
        """Tell no more sessions, and write what is not yet on disk."""
        super().stopService()
        for each in (self._later, self._keeps):
            if each is not None and each.active():
                each.cancel()
        self._keep()

    # What is shown

    def rows(self) -> tuple[MoveRow, ...]:
        """Return the moves, with the sessions of this process."""
        return tuple([self._row(name, move) for name, move in self._config.moves.items()])

    def _row(self, name: str, move: Move) -> MoveRow:
        moving = [each for each in self._config.listeners if move in each.moves]
        listeners = {each.name for each in moving}
        route = next(each for each in moving[0].routes if each.move is move)
        ways = [each.upstream for each in moving]
        ways += [each.upstream for one in moving for each in one.routes if each.move is None]
        old = " or ".join(dict.fromkeys([each.name for each in ways if each is not route.upstream]))
        pattern = f"{route.match.value} {route.pattern}"
        count = followed = older = 0
        stays: list[list[str]] = []
        for session in self._sessions:
            if session.over or session.relay.session is None or session.relay.listener.name not in listeners:
                continue
            count += 1
            standing = session.relay.standing(move)
            if standing is None:
                older += move.phase is not Phase.OFF
                followed += move.phase is Phase.OFF
            elif standing[1]:
                stays.append([session.name, standing[1]])
            else:
                followed += standing[0]
        return MoveRow(
            name, pattern, route.upstream.name, move.phase.value, move.since, count, followed, len(stays), older,
            move.copied, move.failed, move.stopped, stays[:SHOWN], _some(move.away), old,
        )  # fmt: skip


def _some(names: list[str]) -> list[str]:
    left = len(names) - SHOWN
    return [*names[:SHOWN], f"and {left} more"] if left > 0 else names


def _said(phases: Phases) -> dict[str, Any]:
    found = {name: {**kept._asdict(), "phase": kept.phase.value} for name, kept in phases.items()}
    return {
        name: {key: value for key, value in each.items() if value or key == "since"}
        for name, each in found.items()
    }


def _phases(content: bytes) -> Phases:
    """Return the phases in a file's content. Raises `ValueError`."""
    try:
        return {name: _kept(**said) for name, said in json.loads(content).items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ValueError("is not a file of phases that the relay has written") from None


def _kept(phase: str, since: float, stopped: str = "", durable: Mapping[str, bool] = {}, **_: object) -> Kept:
    return Kept(
        Phase(phase), float(since), str(stopped), {name: there is True for name, there in durable.items()}
    )
