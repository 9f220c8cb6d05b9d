"""The status page."""

import re
from pathlib import Path

from twisted.internet.error import ConnectionLost

from stomprelay.service.admin.status import status
from tests.service.diary import Diary
from tests.service.house import CONNECT, CONNECTED, SEND, House, failover, listener, movable


def rows(house: House) -> list[tuple[str, ...]]:
    """The rows of all tables, as text."""
    return [
        tuple(re.findall("<td.*?>(.*?)</td>", row))
        for row in re.findall("<tr>(.*?)</tr>", status(house.service.state))
    ]


def test_a_listener_names_all_its_brokers() -> None:
    """In the order in which they are tried."""
    house = House(listener(upstream=movable(failover(1, 2))))
    assert ("public", "tcp:61613", "tcp://192.0.2.1:61613, tcp://192.0.2.2:61613", "0", "0", "0") in rows(
        house
    )


def test_brokers_and_how_they_are() -> None:
    """Where they stand, their state, their sessions, their failures."""
    house = House(listener(upstream=movable(failover(1, 2))))
    house.session()
    two = house.service.state.brokers.configured[1]
    two.broker.health.failed(two.upstream.checks, house.reactor.seconds(), lambda: 0.5)
    name = two.group.name
    assert ("main", name, "tcp://192.0.2.1:61613", "up", "1", "0") in rows(house)
    assert ("main", name, "tcp://192.0.2.2:61613", "out", "0", "1") in rows(house)


def test_where_a_session_is() -> None:
    """Nowhere before CONNECT; then on a broker, or looking for one."""
    house = House(listener(upstream=movable(failover(1, 2))))

    def session() -> tuple[str, ...]:
        (row,) = (row for row in rows(house) if row and row[0].startswith("relay-"))
        return row[3:]

    client = house.client()
    assert session() == ("none yet", "none yet", "0", "0")
    client.says(CONNECT)
    assert session() == ("1.2", "searching", str(len(CONNECT)), "0")
    broker = house.broker()
    broker.says(CONNECTED)
    client.says(SEND)
    octets = str(len(CONNECT + SEND)), str(len(CONNECTED))
    assert session() == ("1.2 to 1.2", "tcp://192.0.2.1:61613", *octets)
    broker.goes(ConnectionLost())
    assert session() == ("1.2", "searching", *octets)
    house.broker().says(CONNECTED)
    assert session()[:2] == ("1.2 to 1.2", "tcp://192.0.2.2:61613")


def test_everything_is_escaped() -> None:
    """Names are text."""
    house = House(listener(name="<i>", upstream=movable(failover(1), name="<b>")))
    assert "<i>" not in status(house.service.state)
    assert "<b>" not in status(house.service.state)
    assert "&lt;b&gt;" in status(house.service.state)


def test_the_journal(tmp_path: Path) -> None:
    """Where it is, how it is and how much; a failing disk shows, in the line for systemd, too."""
    assert "Journal" not in status(House().service.state)
    diary = Diary(tmp_path)
    waiting = str(diary.journal.waiting)
    assert (str(tmp_path), "is written", "0", "0", "0", waiting, "0", "0") in rows(diary)
    assert diary.service._status() == "0 sessions, 1 listener"
    diary.journal.written.trouble = "No space left on device"
    diary.journal.written.errors = 3
    found = (str(tmp_path), "cannot be written: No space left on device", "0", "0", "0", waiting, "0", "3")
    assert found in rows(diary)
    assert diary.service._status() == (
        "0 sessions, 1 listener, the journal cannot be written: No space left on device"
    )
