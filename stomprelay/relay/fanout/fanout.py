"""Frames between a client and several brokers: groups of one upstream, upstreams by routes, or both."""

from collections.abc import Callable

from stomprelay.relay.bridge.tracing import Tracer
from stomprelay.relay.effects import Effect
from stomprelay.relay.fanout.disconnect import Farewell
from stomprelay.relay.fanout.dispatch import Switchboard
from stomprelay.relay.fanout.member import Lane
from stomprelay.relay.fanout.merge import Confluence
from stomprelay.relay.fanout.quorum import Ballot, Quorum
from stomprelay.relay.fanout.router import Directory
from stomprelay.relay.flow import Goodbye
from stomprelay.relay.link.link import Branch
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.complaint import complain
from stomprelay.session.effects import Pause, Resume
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.names import DISCONNECT


class Distribution:
    """A `Flow` with several branches. What the client says goes by a `Switchboard` to lanes, each of which waits for
    its own broker alone; what brokers say comes by a `Confluence`. `branches` makes those of an upstream.
    """

    __slots__ = (
        "_begun",
        "_board",
        "_client",
        "_confluence",
        "_directory",
        "_farewell",
        "_places",
        "_quorum",
        "_session",
        "_tracer",
        "branches",
    )

    def __init__(
        self, client: Leg, listener: Listener, session: Session, branches: Callable[[Upstream], list[Branch]]
    ) -> None:
        self._client = client
        self._session = session
        self._tracer = Tracer(session.name) if listener.trace else None
        self._directory = Directory(listener, branches)
        self._places = self._directory.places
        self.branches = self.opened()
        self._quorum = Quorum(client, session, self._directory)
        self._board = Switchboard(session, self._directory, self._quorum.votes)
        self._farewell = Farewell(session, self._directory, self._quorum)
        self._confluence = Confluence(client, session, self._quorum, self._farewell)
        self._begun = False

    # What is asked of it

    @property
    def goodbye(self) -> Goodbye:
        """How far the client's DISCONNECT is."""
        return self._farewell.goodbye

    @property
    def bye(self) -> bytes | None:
        """The receipt that it asked for."""
        return self._farewell.bye

    @property
    def erred(self) -> bool:
        """An ERROR was the last that passed."""
        return self._confluence.erred

    @property
    def deaf(self) -> bool:
        """The client is gone, and only what it said is still to be delivered."""
        return self._quorum.deaf

    @deaf.setter
    def deaf(self, deaf: bool) -> None:
        self._quorum.deaf = deaf

    @property
    def survives(self) -> bool:
        """What the client says may have to wait, even where the loss of a broker ends the session."""
        return True

    @property
    def ready(self) -> bool:
        """A quorum of the listener's own upstream has brokers."""
        return self._directory.main.ready

    @property
    def flowing(self) -> bool:
        """What the client says waits in lanes, so that what is for one broker does not wait for another."""
        return self._begun

    @property
    def full(self) -> bool:
        """In one upstream too few groups have room."""
        return any(trunk.full for trunk in self._directory.trunks)

    @property
    def crowded(self) -> bool:
        """In one upstream too few groups have much room."""
        return any(trunk.crowded for trunk in self._directory.trunks)

    @property
    def safe(self) -> bool:
        """Nothing that must not be lost is undecided, and a quorum has all of the rest."""
        return self._farewell.safe

    @property
    def settled(self) -> bool:
        """The client said goodbye and is owed nothing."""
        return self._farewell.settled

    def opened(self) -> list[Branch]:
        """Those of upstreams that were not needed before, and those whose broker was left just now."""
        opened, self._directory.opened = self._directory.opened, []
        return opened

    # What comes

    def to_broker(self, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the client's leg has."""
        failure = None
        count = 0
        tracer, decoder = self._tracer, self._client.decoder
        try:
            for frame in decoder.frames() if tracer is None else tracer.frames(decoder):
                count += 1
                if frame.command is DISCONNECT:
                    self._farewell.came(frame, self._client)
                    break
                self._board.say(frame, effects)
        except StompError as error:
            failure = error
        self._session.tally["client_frames"] += count
        if len(self.branches) != len(self._places):
            self.branches = list(self._places)
        for trunk, lane in self._places.values():
            if lane.flooded and trunk.upstream.movable:
                failure = self._quorum.leave(trunk, lane, effects, now) or failure
        return self._go_on(effects, now) or failure

    def to_client(self, branch: Branch, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the broker's leg of a branch has."""
        trunk, lane = self._places[branch]
        leg = branch.leg
        assert leg is not None
        failure = self._confluence.pour(trunk, lane, effects, now)
        if failure is not None and trunk.fans and not isinstance(failure, Refused):
            why = f"it sent what cannot be passed on: {failure.message}"
            failure = self._quorum.strike(trunk, lane, why, effects, now)
        failure = failure or self._go_on(effects, now)
        # A broker whose receipts the client waits for is read from, whatever the client owes it.
        if lane.session.full and not lane.held and not leg.closed and not self.crowded:
            lane.held = True
            effects.append(Pause(leg))
        return failure

    def bound(self, branch: Branch, effects: list[Effect], now: float) -> StompError | None:
        """Tell a new broker all that it has to know."""
        trunk, lane = self._places[branch]
        lane.bound()
        self._begun = self._begun or self.ready
        try:
            lane.carrier.replay(subscriptions=self.goodbye is Goodbye.UNSAID and not self.deaf)
        except StompError as error:
            if not trunk.fans:
                return error
            return self._quorum.give_up(trunk, lane, f"{error.message} there", effects, now)
        finally:
            lane.carrier.flush(effects, now)
        return self._go_on(effects, now)

    def over(self, branch: Branch) -> bool:
        """It said ERROR and the client was told, or the client said goodbye."""
        return self.settled or (self.erred and self._places[branch][1].erred)

    def lost(self, branch: Branch, effects: list[Effect], now: float) -> StompError | None:
        """Others go on; this one is sought anew."""
        trunk, lane = self._places[branch]
        failure = self._quorum.lost(trunk, lane, effects, now)
        if not trunk.upstream.movable:
            return StompError("connection to the broker was lost", f"upstream {trunk}", receipt=self.bye)
        return failure or self._go_on(effects, now)

    def given_up(self, branch: Branch, effects: list[Effect], now: float) -> StompError | None:
        """Others go on, if they are enough."""
        trunk, lane = self._places[branch]
        if trunk.fans:
            failure = self._quorum.give_up(trunk, lane, branch.verdict, effects, now)
            return failure or self._go_on(effects, now)
        if branch.fresh or not trunk.upstream.movable:
            return StompError("broker not available", f"upstream {trunk} did not connect", receipt=self.bye)
        return StompError("no broker available", f"upstream {trunk}: {branch.verdict}", receipt=self.bye)

    def denied(self, branch: Branch, error: bytes, effects: list[Effect], now: float) -> bytes | None:
        """Others go on, if they are enough. Otherwise a client that was not answered yet gets this ERROR."""
        trunk, lane = self._places[branch]
        failure = self._quorum.give_up(trunk, lane, "it answered CONNECT with ERROR", effects, now)
        failure = failure or self._go_on(effects, now)
        if failure is None:
            return None
        return complain(failure, self._session.dialect) if self._begun and trunk.fans else error

    def unanswered(self) -> list[Branch]:
        """Those that are in the way of a goodbye."""
        lanes = [lane for trunk, lane in self._places.values() if trunk.upstream.movable and lane.up]
        return [lane.branch for lane in lanes if not lane.safe or self._farewell.awaits(lane)]

    def say_goodbye(self, effects: list[Effect], now: float) -> None:
        """The DISCONNECT that waited goes to all brokers that are there."""
        self._farewell.say(effects, now)

    def blocked(self, leg: Leg) -> None:
        """What is said to this broker waits for it, and for nobody else."""
        self._lane(leg).blocked = True

    def unblocked(self, leg: Leg, effects: list[Effect], now: float) -> StompError | None:
        """What waited is said."""
        self._lane(leg).blocked = False
        return self._go_on(effects, now)

    def _lane(self, leg: Leg) -> Lane:
        return next(lane for branch, (_, lane) in self._places.items() if branch.leg is leg)

    def _go_on(self, effects: list[Effect], now: float) -> StompError | None:
        """What was said is written, what was answered is told, and what waited for that happens."""
        decided: list[Ballot[Lane]] = []
        failure: StompError | None = None
        for _, lane in self._places.values():
            try:
                lane.flush(effects, now)
            except StompError as error:
                failure = failure or error
            decided += self._quorum.excused(lane)
            if lane.held and lane.branch.leg is not None and (not lane.session.crowded or self.crowded):
                lane.held = False
                effects.append(Resume(lane.branch.leg))
        failure = failure or self._quorum.announce(decided, effects, now)
        if failure is None:
            self._farewell.go_on(effects, now)
        return failure
