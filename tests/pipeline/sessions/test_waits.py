"""What waits too long for its ACK or NACK."""

from typing import Any

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
    assert _waits(script) == [
        {
            "relay": "relay",
            "session": "s1",
            "client": "client of s1",
            "subscription": "1",
            "destination": "/queue/a",
            "upstream": "main",
            "broker": "a",
            "since_ns": since,
            "until_ns": script.ns,
            "age_ns": script.ns - since,
            "deliveries": 1,
            "outcome": "acked",
            "going": False,
            "final": True,
        }
    ]


def test_waits_of_one_time() -> None:
    """Of a subscription and broker they are one, however many there are; what is told of it is of the last."""
    script = _script()
    for name in ("m1", "m2", "m3"):
        script.gets(name)
    since = script.ns
    script.passes(100)
    for command, name in (("ACK", "m1"), ("ACK", "m2"), ("NACK", "m3")):
        script.says(command, ack=name)
    (row,) = _waits(script)
    assert (row["until_ns"], row["deliveries"], row["outcome"]) == (script.ns, 3, "nacked")
    assert row["since_ns"] < since
    assert row["age_ns"] < script.ns - row["since_ns"]


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


def test_an_answer_in_a_transaction() -> None:
    """It ends the wait, for good with COMMIT; with ABORT the delivery was waiting all the time."""
    for command in ("COMMIT", "ABORT"):
        script = _script()
        script.gets("m")
        script.passes(100)
        script.says("BEGIN", transaction="x")
        script.says("ACK", ack="m", transaction="x")
        answered = script.ns
        (row,) = _waits(script)
        assert (row["until_ns"], row["outcome"], row["going"], row["final"]) == (
            answered,
            "acked",
            False,
            False,
        )
        script.breaks()
        script.passes(100)
        script.says(command, transaction="x")
        (row,) = _waits(script)
        if command == "COMMIT":
            assert (row["until_ns"], row["outcome"], row["final"]) == (answered, "acked", True)
        else:
            assert (row["until_ns"], row["outcome"], row["going"]) == (script.ns, None, True)


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
