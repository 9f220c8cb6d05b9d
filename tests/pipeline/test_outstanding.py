"""What subscriptions owe."""

from stomprelay.pipeline.outstanding import OUTSTANDING
from tests.pipeline.script import Script


def test_its_columns() -> None:
    """A conversation fills them."""
    script = Script()
    script.subscribes()
    script.gets("m")
    (row,) = script.conversation.outstanding(script.ns)
    assert dict(zip(OUTSTANDING.names, row, strict=True))["outstanding"] == 1
