"""Orders side by side, and from batch to batch."""

from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.settings import SECOND, TimeLimits
from tests.pipeline.journals import BEGUN
from tests.pipeline.script import MS, Script, named

TERMS = TimeLimits(give_up=3600 * SECOND)


def _scripts() -> list[s.Transfer]:
    """Two queues, one of which is also used with a trace."""
    p, c = Script(name="p"), Script(name="c")
    c.subscribes("auto")
    for at in range(3):
        p.ns = BEGUN + (100 + at) * MS
        p.sends()
        p.sends(destination="/queue/b")
    p.sends("t")
    c.ns = BEGUN + 200 * MS
    c.gets("m1", trace=None)
    c.gets("m2", trace=None)
    return [*p.transfers, *c.transfers]


def _names(rows: list[s.Transfer]) -> dict[tuple[str, int], str]:
    return {(row[s.SEGMENT], row[s.POSITION]): row[s.KEY] for row in rows}


def test_each_message_has_a_key() -> None:
    """Deliveries have that of their SEND; a key that carries through stays as it is."""
    rows, left = named(_scripts(), TERMS, BEGUN + SECOND)
    keys = [row[s.KEY] for row in rows]
    assert len(keys) == 9
    assert len(set(keys)) == 7
    assert "tt" in keys
    assert sorted(key.partition("\x1f")[0] for key, _ in left) == ["o/queue/a", "o/queue/b"]


def test_what_is_ahead_is_done_again() -> None:
    """When it is reached, the same comes of it as if all had been there; until then it shows."""
    whole, _ = named(_scripts(), TERMS, BEGUN + SECOND)
    first, left = named(_scripts(), TERMS, BEGUN + 103 * MS)
    assert sorted(_names(first).values()) == sorted(_names(whole).values())
    second, rest = named([], TERMS, BEGUN + SECOND, left)
    assert _names(second).items() <= _names(whole).items()
    assert 0 < len(second) < len(whole)
    assert len(rest) == 2


def test_an_order_that_nothing_comes_for_is_left_alone() -> None:
    """Until all that it has is given up."""
    _, left = named(_scripts(), TERMS, BEGUN + SECOND)
    assert named([], TERMS, BEGUN + 2 * SECOND, left) == ([], left)
    assert named([], TERMS, BEGUN + 9000 * SECOND, left) == ([], [])
