"""What waits too long for its ACK or NACK."""

from typing import Any

from stomprelay.pipeline.sessions.waits import Wait
from stomprelay.pipeline.settings import SECOND, TimeLimits
from tests.pipeline.script import MS, Script

BOUND = 60


def _script(mode: str = "client-individual") -> Script:
    script = Script(limits=TimeLimits(stuck_after=BOUND * SECOND))
    script.subscribes(mode)
    return script


def _waits(script: Script, **known: bool) -> list[dict[str, Any]]:
    rows = script.conversation.waits(script.ns, **known)
    return [row._asdict() for row in rows]


def test_each_cell() -> None:
    """Of one that was answered too late."""
    script = _script()
    script.gets("m")
    since = script.ns
    script.passes(100)
    script.says("ACK", ack="m")
    who = ("relay", "s1", "client of s1", "1", "/queue/a", "main", "a")
    wait = Wait(*who, since, script.ns, script.ns - since, 1, "acked", going=False, final=True)
    assert _waits(script) == [wait._asdict()]


def test_exactly_the_bound_is_in_time() -> None:
    """One more nanosecond is not; so also for what has no answer yet."""
    for more, found in ((0, 0), (1, 1)):
        script = _script()
        script.gets("m")
        script.ns += BOUND * SECOND + more
        assert len(_waits(script)) == found
        script.breaks()
        script.ns -= MS
        script.says("NACK", ack="m")
        assert [row["outcome"] for row in _waits(script)] == ["nacked"] * found


def test_a_relay_of_which_nothing_is_heard() -> None:
    """Then nobody waits any more, and when it is given up that is final."""
    script = _script()
    script.gets("m")
    script.passes(100)
    for known, wanted in (
        ({"present": True}, (True, False)),
        ({"present": False}, (False, False)),
        ({"present": False, "over": True}, (False, True)),
    ):
        (row,) = _waits(script, **known)
        assert (row["outcome"], row["going"], row["final"]) == (None, *wanted)
        script.breaks()
