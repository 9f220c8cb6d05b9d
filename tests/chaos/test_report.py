"""What a run says."""

from chaos.account import Account, Message
from chaos.report import FEW, report


def test_the_table() -> None:
    """Figures stand in a column, with thousands set apart and the faults by kind."""
    account = Account(sent=12345, silence=1.26, wait=3.0)
    text = report("seed 1", 24, account, {"SIGKILL": 2, "reset": 3})
    assert text.startswith("seed 1\n\nsessions ")
    rows = dict(line.rsplit(maxsplit=1) for line in text.splitlines()[2:] if not line.endswith(" s"))
    assert rows["messages sent"] == "12,345"
    assert rows["sessions"] == "24"
    assert (rows["faults injected"], rows["  SIGKILL"], rows["  reset"]) == ("5", "2", "3")
    assert "longest silence seen by a client   1.3 s" in text
    assert len({len(line) for line in text.splitlines()[2:]}) == 1


def test_what_went_wrong() -> None:
    """What was lost and who was disconnected is told one by one, up to a few."""
    account = Account(disconnects=["consumer-1: ERROR: no broker"])
    for number in range(FEW + 2):
        account.confirm(Message("p", number), "/queue/a", 0.0)
    lines = report("seed 1", 1, account, {}).splitlines()
    assert "disconnected: consumer-1: ERROR: no broker" in lines
    assert "lost: p:0" in lines
    assert f"lost: p:{FEW}" not in lines
    assert "lost: 2 more" in lines
