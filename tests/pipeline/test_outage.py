"""Outages as sessions saw them."""

from stomprelay.pipeline.match.outages import OUTAGE, BrokerLoss


def test_its_columns() -> None:
    """A loss fills them, each once."""
    assert (
        len(set(OUTAGE.names))
        == len(OUTAGE.names)
        == len(BrokerLoss(None, None, "a", 1, planned=False).row("r", "s"))
    )
    assert OUTAGE.ddl.startswith("`relay` string NOT NULL")
