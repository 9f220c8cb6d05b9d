"""What a run has to say for itself."""

from collections.abc import Mapping, Sequence

from chaos.account import Account
from chaos.verdict import Verdict

FEW = 10
"""How many of what must not be are told one by one."""


def report(
    title: str,
    sessions: int,
    account: Account,
    faults: Mapping[str, int],
    more: Sequence[tuple[str, str]],
) -> Verdict:
    """Return the figures, with `more` at their end, and whatever broke a promise."""
    rows = [
        ("sessions", f"{sessions:,}"),
        ("messages sent", f"{account.sent:,}"),
        ("  confirmed", f"{len(account.confirmed):,}"),
        ("  received", f"{len(account.received):,}"),
        ("  duplicated", f"{account.duplicates:,}"),
        ("  lost", f"{len(account.lost):,}"),
        ("  lost on the way to ack:auto", f"{account.lost_on_the_way:,}"),
        ("  out of order", f"{account.disorder:,}"),
        ("  aborted, yet received", f"{account.ghosts:,}"),
        ("receipts that came twice", f"{account.receipts_twice:,}"),
        ("transactions committed", f"{account.committed:,}"),
        ("  ended with an ERROR at COMMIT", f"{account.unknown:,}"),
        ("faults injected", f"{sum(faults.values()):,}"),
        *((f"  {name}", f"{count:,}") for name, count in sorted(faults.items())),
        ("disconnects seen by clients", f"{len(account.disconnects):,}"),
        ("sessions that did not end", f"{len(account.stuck):,}"),
        ("longest silence seen by a client", f"{account.silence:.1f} s"),
        ("longest wait for a receipt", f"{account.wait:.1f} s"),
        ("  waits that no outage explains", f"{len(account.withheld):,}"),
        *more,
    ]
    broken: list[str] = []
    for what, found in (
        ("lost", [each.body.decode() for each in account.lost]),
        ("disconnected", account.disconnects),
        ("did not end", account.stuck),
        ("withheld", [f"a receipt for {end - began:.1f} s" for began, end in account.withheld]),
        ("left", account.left),
    ):
        broken += [f"{what}: {each}" for each in found[:FEW]]
        broken += [f"{what}: {len(found) - FEW:,} more"] if len(found) > FEW else []
    return Verdict(title, rows, broken)
