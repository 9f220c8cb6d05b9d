"""Who takes part in a run."""

from collections import Counter

import pytest

from chaos.account import Account
from chaos.sessions import MODES, VERSIONS, Consumer, Producer, Transactor, crew


@pytest.mark.parametrize("count", [2, 3, 24, 100])
def test_half_of_them_read(count: int) -> None:
    """Each queue has its consumer, and each producer a queue that somebody reads."""
    made = crew(count, 1, Account())
    consumers = [each for each in made if isinstance(each, Consumer)]
    assert len(made) == count
    assert len(consumers) == count // 2
    assert {each.queue for each in made} <= {each.queue for each in consumers}
    assert len({each.name for each in made}) == count


def test_all_kinds() -> None:
    """With enough of them there is every version in every mode, and producers with and without transactions."""
    account = Account()
    made = crew(40, 1, account)
    consumers = Counter((each._version, each._mode) for each in made if isinstance(each, Consumer))
    assert set(consumers) == {(version, mode) for version in VERSIONS for mode in MODES}
    assert {type(each) for each in made} == {Consumer, Producer, Transactor}
    careless = {each.queue for each in made if isinstance(each, Consumer) and each._mode == "auto"}
    assert account.careless == careless
