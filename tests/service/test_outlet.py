"""An outlet: what it notes, and whom it tells."""

from typing import Any

from stomprelay.service.connection.outlet import Outlet


class Session:
    """Whose outlet it is; writes down what it was told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def weigh(self) -> None:
        self.told.append("weigh")

    def parted(self, outlet: Outlet) -> None:
        self.told.append(outlet)


def outlet() -> tuple[Outlet, Session]:
    """An outlet and whose it is."""
    session = Session()
    line: Any = object()
    return Outlet(session, line), session


def test_a_transport_that_is_full_and_has_room_again() -> None:
    """Both is noted before it is told."""
    one, session = outlet()
    seen = [one.full]
    one.pauseProducing()
    seen.append(one.full)
    one.resumeProducing()
    seen.append(one.full)
    assert seen == [False, True, False]
    assert session.told == ["weigh", "weigh"]


def test_a_transport_that_is_gone() -> None:
    """It is not full any more, which is not to say that it has room."""
    one, session = outlet()
    one.pauseProducing()
    one.stopProducing()
    assert not one.full
    assert session.told == ["weigh", one]


def test_it_is_small() -> None:
    """Every session has one for each broker."""
    assert not hasattr(outlet()[0], "__dict__")
