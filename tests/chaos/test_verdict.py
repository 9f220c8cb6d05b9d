"""What a crash run says."""

from chaos.verdict import Verdict


def test_figures_in_columns() -> None:
    """Names to the left, figures to the right, and nothing else where all was kept."""
    text = str(Verdict("journal: 2 kills", (("SENDs confirmed", "1,234"), ("torn ends", "0"))))
    assert text == "journal: 2 kills\n  SENDs confirmed  1,234\n  torn ends            0"


def test_broken_promises() -> None:
    """Each has a line."""
    text = str(Verdict("replay", (), ("3 messages were lost", "/queue/d0 is out of order")))
    assert text == "replay\n  BROKEN: 3 messages were lost\n  BROKEN: /queue/d0 is out of order"
