"""A replay is killed: what the consumer's messages say of it."""

import random

from chaos.replaying import CONNECTIONS, EACH, WINDOW, Heard, goals, judged

WHOLE = [Heard(f"/queue/d{at % 2}", f"k{at}", at // 2) for at in range(7)]


def test_all_came() -> None:
    """Some twice, with the keys that they had."""
    assert judged(WHOLE, 7, 2, 1) == (0, 0, [])
    assert judged([*WHOLE[:4], *WHOLE[2:]], 7, 2, 1) == (0, 2, [])


def test_what_is_lost() -> None:
    """It is counted, and what came twice does not stand in for it."""
    assert judged([*WHOLE[:3], WHOLE[2], *WHOLE[4:]], 7, 2, 1) == (1, 1, ["1 messages were lost"])


def test_keys() -> None:
    """A message that comes again with another key is another message to its consumer; no two share one."""
    again = Heard(WHOLE[6].destination, "other", WHOLE[6].number)
    assert judged([*WHOLE, again], 7, 2, 1) == (0, 1, ["7 messages came with 8 keys"])
    shared = Heard(WHOLE[6].destination, "k5", WHOLE[6].number)
    assert judged([*WHOLE[:6], shared], 7, 2, 1)[2] == ["7 messages came with 6 keys"]


def test_order() -> None:
    """Of each destination alone; what comes again does not count."""
    assert judged([*WHOLE[1::2], *WHOLE[::2]], 7, 2, 1)[2] == []
    assert judged([WHOLE[2], WHOLE[0], WHOLE[1], *WHOLE[3:]], 7, 2, 1)[2] == ["/queue/d0 is out of order"]
    assert judged([*WHOLE, WHOLE[0]], 7, 2, 1)[2] == []


def test_too_many_twice() -> None:
    """No more than a window for each connection and kill."""
    most = CONNECTIONS * WINDOW
    assert judged([*WHOLE, *[WHOLE[-1]] * most], 7, 2, 1)[2] == []
    (broken,) = judged([*WHOLE, *[WHOLE[-1]] * (most + 1)], 7, 2, 1)[2]
    assert broken.startswith(f"{most + 1} came twice, more than 1 * ")


def test_the_goals() -> None:
    """Once while it starts, then in each part of the messages in turn, before the last of them."""
    drawn = list(goals(random.Random(1), 5))
    assert drawn[0] is None
    assert [each // EACH for each in drawn[1:] if each is not None] == [0, 1, 2, 3]
