"""What is said of runs on clusters."""

from bench.cluster import Run, report


def test_how_the_time_shrinks() -> None:
    """Over one executor's."""
    one, two = (
        line.split()
        for line in report([Run(1, 1000, 20), Run(2, 1000, 12)]).splitlines()
        if line[:2] in {"1 ", "2 "}
    )
    assert one == ["1", "1,000", "20.0", "50.0", "1.00"]
    assert two == ["2", "1,000", "12.0", "83.3", "0.600"]
