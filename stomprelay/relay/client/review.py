"""What becomes of a client that is in when its rules change, or it shows a new token."""

from collections.abc import Callable
from typing import Final

from stomprelay.relay.client.shutdown import Reason, Shutdown
from stomprelay.relay.client.turns import Turns
from stomprelay.relay.effects import Outbox
from stomprelay.relay.flow import Flow
from stomprelay.relay.forward import give_receipts
from stomprelay.relay.guard import UNGUARDED, Guard
from stomprelay.relay.model.access import Identity
from stomprelay.relay.model.rules import AccessRules
from stomprelay.session.leg import Leg

JUDGED: Final = 128
"""How many subscriptions are judged by new rules in one turn: a few milliseconds' work."""


class Review:
    """Judges the subscriptions of a client again, a turn's worth at a time; call `go_on` in each turn of the client's.
    It keeps nothing itself: the flow's guard has what is still to be judged. It calls `wake` when another time has come
    to be the next at which something is due, and `end` where the session has to end.
    """

    __slots__ = ("_client", "_end", "_flow", "_outbox", "_shutdown", "_turns", "_wake")

    def __init__(
        self,
        client: Leg,
        flow: Flow,
        shutdown: Shutdown,
        turns: Turns,
        outbox: Outbox,
        wake: Callable[[], None],
        end: Callable[[Reason], None],
    ) -> None:
        self._wake = wake
        self._end = end
        self._client = client
        self._flow = flow
        self._shutdown = shutdown
        self._turns = turns
        self._outbox = outbox

    def renewed(self, identity: Identity, now: float) -> None:
        """The client has shown a new token: it may stay until that expires, with the groups of that."""
        if self._client.gone or self._client.closed:
            return
        self._shutdown.expires = identity.until
        self._wake()
        guard = self._flow.guard
        changed = guard.renewed(identity)
        receipt = guard.answered()
        give_receipts([] if receipt is None else [receipt], self._client, self._outbox, now)
        if changed:
            self._begin()

    def refused(self) -> None:
        """The client has shown a new token that is not good: it may stay as long as the one that it has is, and gets no
        receipt.
        """
        self._flow.guard.answered()

    def ruled(self, rules: AccessRules | None, identity: Identity, counters: dict[str, int]) -> None:
        """These are the rules from now on; `counters` has the frames that are refused by them."""
        flow = self._flow
        if flow.guard is UNGUARDED and rules is not None:
            flow.guard = Guard(rules, identity, counters)
        elif flow.guard is not UNGUARDED:
            flow.guard.ruled(rules)
        self._begin()

    def _begin(self) -> None:
        flow = self._flow
        if flow.guard is not UNGUARDED:
            flow.guard.doubt([each for link in flow.links for each in link.session.subscriptions])
            self.go_on()

    def go_on(self) -> None:
        """Judge more of the subscriptions that may not be allowed any more. End the session where one is not, unless it
        is about to end.
        """
        guard = self._flow.guard
        if not guard.doubts or self._client.closed or self._shutdown.begun:
            return
        error = guard.objection(JUDGED)
        if error is None:
            self._turns.give_way(self._client, more=guard.doubts)
            return
        text = f"the rules were changed: {error.detail}"
        self._end(Reason("a subscription is no longer allowed", error.detail, text, error.quoted))
