"""A client's subscriptions, and which of them a MESSAGE is for: as the relay tells, see `session.subscriptions`."""

from typing import Any, Final

from stomprelay.session.subscriptions import AUTO as _AUTO
from stomprelay.session.subscriptions import LATELY
from stomprelay.session.subscriptions import MADE as _MADE

AUTO: Final = _AUTO.decode()
_MADE_NAME: Final = _MADE.decode()


class Subscription:
    """One SUBSCRIBE, at `since` ns. `id` is the name toward brokers, which the client chose or (not `named`) the relay.
    `unsettled` are the numbers of its deliveries that have no answer, in order. `mode` None: it was never seen.
    """

    __slots__ = ("destination", "id", "mode", "named", "open", "since", "unsettled")

    def __init__(
        self, id: str, destination: str | None, mode: str | None, since: int | None, *, named: bool
    ) -> None:
        self.id = id
        self.destination = destination
        self.mode = mode
        self.since = since
        self.named = named
        self.open = True
        self.unsettled: dict[int, None] = {}

    @property
    def shown(self) -> str | None:
        """What a person calls it."""
        return self.id if self.named else self.destination

    def close(self) -> None:
        """UNSUBSCRIBE: what it was delivered may still be answered."""
        self.open = False

    def sort(self) -> None:
        """Deliveries came back: put the numbers of all into order again."""
        self.unsettled = dict.fromkeys(sorted(self.unsettled))

    def dump(self) -> list[Any]:
        """As JSON has it."""
        return [self.id, self.destination, self.mode, self.since, self.named, self.open]

    @classmethod
    def load(cls, values: list[Any]) -> "Subscription":
        """Of what `dump` made."""
        id, destination, mode, since, named, is_open = values
        subscription = cls(id, destination, mode, since, named=named)
        subscription.open = is_open
        return subscription


class Subscribed:
    """The subscriptions of one session. `acknowledging` counts the open ones that ask for ACKs."""

    __slots__ = ("_made", "acknowledging", "ended", "opened")

    def __init__(self) -> None:
        self.opened: dict[str, Subscription] = {}
        self.ended: dict[str, Subscription] = {}
        self.acknowledging = 0
        self._made = 0

    def subscribe(self, id: str | None, destination: str | None, mode: str, since: int) -> None:
        """SUBSCRIBE."""
        named = id is not None
        if id is None:
            self._made += 1
            while f"{_MADE_NAME}{self._made}" in self.opened:
                self._made += 1
            id = f"{_MADE_NAME}{self._made}"
        replaced = self.opened.get(id)
        self.acknowledging += (mode != AUTO) - (replaced is not None and replaced.mode != AUTO)
        self.opened[id] = Subscription(id, destination, mode, since, named=named)
        self.ended.pop(id, None)

    def unsubscribe(self, id: str | None, destination: str | None) -> None:
        """UNSUBSCRIBE, of the oldest one to a destination where it names no id."""
        subscription = self.opened.get(id) if id is not None else self._oldest(self.opened, destination)
        if subscription is None:
            return
        subscription.close()
        self.acknowledging -= subscription.mode != AUTO
        del self.opened[subscription.id]
        self.ended[subscription.id] = subscription
        if len(self.ended) > LATELY:
            del self.ended[next(iter(self.ended))]

    @staticmethod
    def _oldest(among: dict[str, Subscription], destination: str | None) -> Subscription | None:
        return next((each for each in among.values() if each.destination == destination), None)

    def delivered(self, id: str | None, destination: str | None) -> Subscription | None:
        """The one that the relay takes a MESSAGE to be for."""
        opened = self.opened
        if id is not None:
            return opened.get(id) or self.ended.get(id)
        if len(opened) == 1 and not self.ended:
            return next(iter(opened.values()))
        found = self._oldest(opened, destination) or self._oldest(self.ended, destination)
        return next(iter(opened.values())) if found is None and len(opened) == 1 else found

    def meant(self, destination: str | None) -> Subscription | None:
        """The one that a MESSAGE is for whose id nobody chose: brokers make up names for those without."""
        return next(
            (each for each in self.opened.values() if not each.named and each.destination == destination),
            None,
        )

    def dump(self, numbers: dict[Subscription, int]) -> list[Any]:
        """As JSON has it; `numbers` are given to those of them that have none."""
        for each in (*self.opened.values(), *self.ended.values()):
            numbers.setdefault(each, len(numbers))
        opened = [numbers[each] for each in self.opened.values()]
        return [opened, [numbers[each] for each in self.ended.values()], self._made]

    @classmethod
    def load(cls, values: list[Any], numbered: list[Subscription]) -> "Subscribed":
        """Of what `dump` made, with the subscriptions that it numbered."""
        subscribed = cls()
        opened, ended, subscribed._made = values
        subscribed.opened = {numbered[each].id: numbered[each] for each in opened}
        subscribed.ended = {numbered[each].id: numbered[each] for each in ended}
        subscribed.acknowledging = sum(each.mode != AUTO for each in subscribed.opened.values())
        return subscribed
