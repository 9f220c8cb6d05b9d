"""The command line of a run."""

import pytest

from chaos.__main__ import options


def test_without_options() -> None:
    """A RabbitMQ and an ActiveMQ for a minute, from a seed that is drawn."""
    asked = options([])
    assert (asked.seconds, asked.sessions, asked.brokers) == (60.0, 24, ("rabbitmq", "activemq"))
    assert isinstance(asked.seed, int)


def test_options() -> None:
    """Each can be said; one kind of broker means two of it."""
    asked = options(["--seed", "5", "--seconds", "9", "--sessions", "8", "--brokers", "memory"])
    assert (asked.seed, asked.seconds, asked.sessions, asked.brokers) == (5, 9.0, 8, ("memory", "memory"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--brokers", "rabbitmq,artemis"], "artemis"), (["--sessions", "1"], "--sessions")],
)
def test_what_makes_no_sense(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused with the option's name."""
    with pytest.raises(SystemExit) as ended:
        options(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
