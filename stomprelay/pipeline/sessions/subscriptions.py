"""A client's subscriptions, and which of them a MESSAGE is for: as the relay tells, see `session.subscriptions`."""

from dataclasses import dataclass, field
from typing import Any, Final

from stomprelay.pipeline.sessions.transfer import AUTO
from stomprelay.session.subscriptions import LATELY
from stomprelay.session.subscriptions import MADE as _MADE

_MADE_NAME: Final = _MADE.decode()


@dataclass(slots=True, eq=False)
class Subscription:
    """A SUBSCRIBE at `since` ns. `id`: its name toward brokers, the relay's if not `named`. `unsettled`: numbers of its
    unanswered deliveries, ascending. `mode`: None if the SUBSCRIBE was not seen.
    """

    id: str
    destination: str | None
    mode: str | None
    since: int | None
    named: bool = field(kw_only=True)
    open: bool = True
    unsettled: dict[int, None] = field(default_factory=dict)

    @property
    def shown(self) -> str | None:
        """Return the name that tables show: its id, or its destination if the client chose no id."""
        return self.id if self.named else self.destination

    def close(self) -> None:
        """Record UNSUBSCRIBE. Its deliveries can still be acked or nacked."""
        self.open = False

    def sort(self) -> None:
        """Sort `unsettled` again; call it after deliveries were put back."""
        self.unsettled = dict.fromkeys(sorted(self.unsettled))

    def dump(self) -> list[Any]:
        """Return its state, without `unsettled`, as a list that JSON can hold; `load` reads it."""
        return [self.id, self.destination, self.mode, self.since, self.named, self.open]

    @classmethod
    def load(cls, values: list[Any]) -> "Subscription":
        """Return the subscription whose state `dump` returned; its `unsettled` is empty."""
        id, destination, mode, since, named, is_open = values
        subscription = cls(id, destination, mode, since, named=named)
        subscription.open = is_open
        return subscription


class Subscribed:
    """A session's subscriptions by id: `opened`, and the last `ended`. `acknowledging`: those that ask for ACKs."""

    def __init__(self) -> None:
        self.opened: dict[str, Subscription] = {}
        self.ended: dict[str, Subscription] = {}
        self.acknowledging = 0
        self._made = 0

    def subscribe(self, id: str | None, destination: str | None, mode: str, since: int) -> None:
        """Record a SUBSCRIBE at `since` ns; it replaces one of the same id. None as `id`: the relay's name for it."""
        named = id is not None
        if id is None:
            self._made += 1
            while f"{_MADE_NAME}{self._made}" in self.opened:
                self._made += 1
            id = f"{_MADE_NAME}{self._made}"
        replaced = self.opened.pop(id, None)
        if replaced is not None:
            replaced.close()
            self.acknowledging -= replaced.mode != AUTO
        self.acknowledging += mode != AUTO
        self.opened[id] = Subscription(id, destination, mode, since, named=named)
        self._forget(self.ended.pop(id, None))

    def unsubscribe(self, id: str | None, destination: str | None) -> None:
        """Record an UNSUBSCRIBE, if there is one of this id or, for None, the oldest to this destination."""
        subscription = self.opened.get(id) if id is not None else self._oldest(self.opened, destination)
        if subscription is None:
            return
        subscription.close()
        del self.opened[subscription.id]
        self.ended[subscription.id] = subscription
        if len(self.ended) > LATELY:
            self._forget(self.ended.pop(next(iter(self.ended))))

    def _forget(self, ended: Subscription | None) -> None:
        self.acknowledging -= ended is not None and ended.mode != AUTO

    @staticmethod
    def _oldest(among: dict[str, Subscription], destination: str | None) -> Subscription | None:
        return next((each for each in among.values() if each.destination == destination), None)

    def delivered(self, id: str | None, destination: str | None) -> Subscription | None:
        """Return the subscription that a MESSAGE with this `subscription` header and destination is for, or None."""
        opened = self.opened
        named = None if id is None else opened.get(id) or self.ended.get(id)
        if named is not None:
            return named
        if id is None and len(opened) == 1 and not self.ended:
            return next(iter(opened.values()))
        found = self._oldest(opened, destination) or self._oldest(self.ended, destination)
        if id is not None:
            return None if found is None or found.named else found
        return next(iter(opened.values())) if found is None and len(opened) == 1 else found

    def dump(self, numbers: dict[Subscription, int]) -> list[Any]:
        """Return its state for JSON. Subscriptions appear by number; new ones are added to `numbers`."""
        for each in (*self.opened.values(), *self.ended.values()):
            numbers.setdefault(each, len(numbers))
        opened = [numbers[each] for each in self.opened.values()]
        return [opened, [numbers[each] for each in self.ended.values()], self._made]

    @classmethod
    def load(cls, values: list[Any], numbered: list[Subscription]) -> "Subscribed":
        """Return what `dump` described. `numbered`: the subscriptions, each at its number."""
        subscribed = cls()
        opened, ended, subscribed._made = values
        subscribed.opened = {numbered[each].id: numbered[each] for each in opened}
        subscribed.ended = {numbered[each].id: numbered[each] for each in ended}
        known = (*subscribed.opened.values(), *subscribed.ended.values())
        subscribed.acknowledging = sum(each.mode != AUTO for each in known)
        return subscribed
