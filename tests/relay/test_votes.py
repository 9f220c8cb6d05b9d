"""Ballots, cell by cell."""

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.fanout.quorum import Ballot, Verdict, Votes

ANSWERS = ("agree", "excuse", "refuse")


def _expected(answers: list[str], voters: int, quorum: int, required: set[int], order: list[int]) -> Verdict:
    """The rule itself, once more and slowly: what is known after each answer settles it for good."""
    said: dict[int, str] = {}
    for voter, answer in [(-1, ""), *zip(order, answers, strict=True)]:
        if voter >= 0:
            said[voter] = answer
        yes = {each for each, what in said.items() if what == "agree"}
        no = {each for each, what in said.items() if what == "refuse"}
        if len(yes) >= quorum and required <= yes:
            return Verdict.PASSED
        if voters - len(no) < quorum or required & no:
            return Verdict.FAILED
        if len(said) == voters:
            return Verdict.PASSED
    return Verdict.OPEN


CELLS = [
    (voters, quorum, asked, answers)
    for voters in range(1, 4)
    for quorum in range(1, voters + 1)
    for asked in range(voters + 1)
    for answers in product(ANSWERS, repeat=asked)
]


@pytest.mark.parametrize(("voters", "quorum", "asked", "answers"), CELLS)
def test_every_ballot(voters: int, quorum: int, asked: int, answers: tuple[str, ...]) -> None:
    """All answers of up to three voters, in all orders, with and without one that is required."""
    for order in permutations(range(voters), asked):
        for required in (set[int](), {0}):
            ballot = Ballot(b"r", range(voters), quorum, required)
            for voter, answer in zip(order, answers, strict=True):
                getattr(ballot, answer)(voter)
            assert ballot.verdict is _expected(list(answers), voters, quorum, required, list(order))
            assert ballot.awaited == set(range(voters)) - set(order)


def test_a_verdict_is_told_once() -> None:
    """Answers that come after it change nothing."""
    votes: Votes[str] = Votes()
    votes.ask(Ballot(b"r", "abc", 2))
    assert votes.agree("a", b"r") is None
    passed = votes.agree("b", b"r")
    assert passed is not None
    assert passed.verdict is Verdict.PASSED
    assert votes.refuse("c", b"r") is None
    assert passed.verdict is Verdict.PASSED
    assert votes.agree("c", b"r") is None


def test_nobody_votes_twice() -> None:
    """A second RECEIPT of one broker is not another broker's."""
    votes: Votes[str] = Votes()
    votes.ask(Ballot(b"r", "ab", 2))
    assert votes.agree("a", b"r") is None
    assert votes.agree("a", b"r") is None
    assert votes.agree("b", b"r") is not None


def test_an_unknown_receipt_is_nobodys() -> None:
    """Neither is that of one who was not asked."""
    votes: Votes[str] = Votes()
    votes.ask(Ballot(b"r", "a", 1))
    assert votes.agree("a", b"other") is None
    assert votes.agree("b", b"r") is None
    assert votes.awaited("a", b"r") is not None


def test_an_id_that_is_used_again() -> None:
    """Each voter answers in the order in which it was asked, however far the others are."""
    votes: Votes[str] = Votes()
    first, second = Ballot(b"r", "ab", 2), Ballot(b"r", "ab", 2)
    votes.ask(first)
    votes.ask(second)
    assert votes.agree("a", b"r") is None
    assert votes.agree("a", b"r") is None
    assert votes.agree("b", b"r") is first
    assert votes.agree("b", b"r") is second


def test_who_leaves_refuses_all() -> None:
    """What was decided is not decided again, and what was answered before stays."""
    votes: Votes[str] = Votes()
    done, needed, spare = Ballot(b"1", "ab", 2), Ballot(b"2", "ab", 2), Ballot(b"3", "ab", 1)
    for ballot in (done, needed, spare):
        votes.ask(ballot)
    votes.agree("a", b"1")
    votes.agree("b", b"1")
    assert votes.leave("a") == [needed]
    assert needed.verdict is Verdict.FAILED
    assert needed.refused == ["a"]
    assert spare.verdict is Verdict.OPEN
    assert votes.agree("b", b"3") is spare


def test_groups_that_were_not_asked_have_refused() -> None:
    """So the client is told of all that failed."""
    ballot = Ballot(b"r", "b", 1, refused="a")
    ballot.refuse("b")
    assert ballot.verdict is Verdict.FAILED
    assert ballot.refused == ["a", "b"]


def test_pending_counts_what_weighs() -> None:
    """Only open ballots, and only those about what must not be lost."""
    votes: Votes[str] = Votes()
    votes.ask(Ballot(b"1", "ab", 1, weighs=True))
    votes.ask(Ballot(b"2", "ab", 1))
    assert votes.pending == 1
    votes.agree("a", b"2")
    assert votes.pending == 1
    votes.agree("a", b"1")
    assert votes.pending == 0
    votes.agree("b", b"1")
    assert votes.pending == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["x", "y"]), st.sampled_from(ANSWERS)), max_size=60
    ),
    st.lists(st.tuples(st.sampled_from(["x", "y"]), st.integers(1, 3)), min_size=1, max_size=8),
)
def test_ballots_of_few_ids(answers: list[tuple[int, str, str]], asked: list[tuple[str, int]]) -> None:
    """In any order of answers each ballot is decided at most once, and never passes without its quorum."""
    votes: Votes[int] = Votes()
    ballots = [Ballot(id.encode(), range(3), quorum, weighs=True) for id, quorum in asked]
    for ballot in ballots:
        votes.ask(ballot)
    decided: list[Ballot[int]] = []
    given_answers: dict[tuple[int, str], list[str]] = {}
    for voter, id, answer in answers:
        given_answers.setdefault((voter, id), []).append(answer)
        done = getattr(votes, answer)(voter, id.encode())
        if done is not None:
            decided.append(done)
    assert len(decided) == len(set(map(id_of, decided)))
    assert votes.pending == sum(each.verdict is Verdict.OPEN for each in ballots)
    for id in ("x", "y"):
        for place, ballot in enumerate([each for each in ballots if each.receipt == id.encode()]):
            said = [given_answers.get((voter, id), []) for voter in range(3)]
            mine = [each[place] for each in said if len(each) > place]
            if ballot.verdict is Verdict.PASSED:
                assert mine.count("refuse") <= 3 - ballot.quorum
                assert mine.count("agree") >= ballot.quorum or len(mine) == 3
            if ballot.verdict is Verdict.FAILED:
                assert 3 - mine.count("refuse") < ballot.quorum


def id_of(ballot: Ballot[int]) -> int:
    """Ballots are told apart by what they are, not by what they say."""
    return id(ballot)
