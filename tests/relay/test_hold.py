"""What a client says while nobody reads it: kept in order, up to a bound, and read from again when all is given."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.effects import Effect
from stomprelay.relay.flow import InputBuffer
from stomprelay.session.effects import Pause, Resume
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side
from stomprelay.wire.limits import Limits

CLIENT = Leg(Side.DOWNSTREAM, Limits())


def hold(most: int = 10) -> InputBuffer:
    """A hold of so many octets."""
    return InputBuffer(CLIENT, most)


def paced(held: InputBuffer, *, full: bool = False, crowded: bool = False) -> list[Effect]:
    """What it asks for."""
    effects: list[Effect] = []
    held.paced(effects, full=full, crowded=crowded)
    return effects


def test_chunks_come_back_as_they_came() -> None:
    """In their order, cut as they were; the length is in octets."""
    held = hold()
    for chunk in (b"SEND\n", b"\n", b"\0"):
        held.take(chunk)
    assert len(held) == 7
    assert [held.give(), held.give()] == [b"SEND\n", b"\n"]
    assert len(held) == 1
    held.take(b"ACK")
    assert [held.give(), held.give()] == [b"\0", b"ACK"]
    assert not held


def test_the_client_is_paused_at_the_bound() -> None:
    """Not an octet earlier, and once, however much more comes."""
    held = hold(10)
    held.take(b"123456789")
    assert paced(held) == []
    held.take(b"0")
    assert paced(held) == [Pause(CLIENT)]
    assert held.paused
    held.take(b"what was in the socket")
    assert paced(held) == []


def test_one_chunk_may_go_past_the_bound() -> None:
    """What was read is kept whole."""
    held = hold(10)
    held.take(b"x" * 1000)
    assert paced(held) == [Pause(CLIENT)]
    assert held.give() == b"x" * 1000


def test_the_client_is_resumed_when_all_is_given() -> None:
    """Not before: what it says next belongs behind what is held."""
    held = hold(10)
    for chunk in (b"12345", b"67890", b"1"):
        held.take(chunk)
    assert paced(held) == [Pause(CLIENT)]
    for _ in range(2):
        held.give()
        assert paced(held) == []
    held.give()
    assert paced(held) == [Resume(CLIENT)]
    assert not held.paused
    assert paced(held) == []


def test_a_crowded_flow_is_waited_for() -> None:
    """With nothing held, too; being full no longer is not enough."""
    held = hold(10)
    held.take(b"1234567890")
    assert paced(held) == [Pause(CLIENT)]
    held.give()
    assert paced(held, full=True, crowded=True) == []
    assert paced(held, crowded=True) == []
    assert held.paused
    assert paced(held) == [Resume(CLIENT)]


def test_a_full_flow_pauses_the_client() -> None:
    """Without an octet held."""
    held = hold(10)
    assert paced(held, crowded=True) == []
    assert paced(held, full=True, crowded=True) == [Pause(CLIENT)]
    assert paced(held, full=True, crowded=True) == []
    assert paced(held) == [Resume(CLIENT)]


def test_what_nobody_will_want() -> None:
    """It is forgotten, and fills nothing."""
    held = hold(10)
    held.take(b"1234567890")
    held.clear()
    assert not held
    assert paced(held) == []
    held.take(b"12")
    assert held.give() == b"12"


chunks = st.binary(min_size=1, max_size=6)
steps = st.lists(st.one_of(chunks, st.none(), st.sampled_from(["full", "crowded", "free"])))


@given(most=st.integers(1, 12), said=steps)
def test_nothing_is_lost_and_nobody_is_paused_twice(most: int, said: list[bytes | str | None]) -> None:
    """Whatever is taken, given and told: order and octets are kept, Pause and Resume alternate, and a client is
    paused whenever the bound is reached.
    """
    held = hold(most)
    expected: list[bytes] = []
    asked: list[Effect] = []
    full = crowded = False
    for step in said:
        match step:
            case bytes():
                held.take(step)
                expected.append(step)
            case str():
                full, crowded = step == "full", step != "free"
            case None if expected:
                assert held.give() == expected.pop(0)
        asked += paced(held, full=full, crowded=crowded)
        assert len(held) == sum(map(len, expected))
        assert held.paused or (len(held) < most and not full)
        assert held.paused is (len(asked) % 2 == 1)
    assert asked[:1] in ([], [Pause(CLIENT)])
    assert all(one != other for one, other in pairwise(asked))
