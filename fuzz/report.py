"""What a run has to say for itself."""

from fuzz.run import SPARE, Result


def line(result: Result) -> str:
    """Say how far a run has come."""
    rate = sum(result.octets) / max(result.seconds, 0.001) / 1e6
    return (
        f"{result.seconds:6.0f} s  {result.worlds:,} worlds  {sum(result.octets):,} bytes  {rate:.1f} MB/s"
        f"  {len(result.found)} kinds of findings"
    )


def report(result: Result) -> str:
    """A table, and behind it whatever was found, with the command that plays it again."""
    octets, frames = result.octets, result.frames
    rows = [
        ("worlds", f"{result.worlds:,}"),
        *((f"  {kind}", f"{count:,}") for kind, count in sorted(result.kinds.items())),
        ("bytes from clients", f"{octets[0]:,}"),
        ("bytes from brokers", f"{octets[1]:,}"),
        ("frames to clients", f"{frames[0]:,}"),
        ("frames to brokers", f"{frames[1]:,}"),
        ("inputs", f"{result.inputs:,}"),
        ("seconds", f"{result.seconds:,.1f}"),
        ("blocks of memory more than at the start", f"{result.growth:,}"),
    ]
    for (slowest, world), by in zip(result.slowest, ("time", "ratio"), strict=False):
        said = f"{slowest.seconds * 1000:.2f} ms for {slowest.size:,} bytes, {slowest.ratio:,.0f} times a plain chunk's"
        rows.append((f"longest work by {by}", f"{said} ({slowest.input}, world {world})"))
    width = max(len(name) for name, _ in rows)
    lines = [f"seed {result.seed}", "", *(f"{name:<{width}}  {figure}" for name, figure in rows)]
    if result.growth > SPARE:
        lines.append(f"FOUND: memory grows: {result.growth:,} blocks, {SPARE} are allowed")
    for each in result.found.values():
        lines.append(f"FOUND in {each.count:,} worlds: {each.finding.what} {each.finding.place}")
        lines.append(f"  python -m fuzz --seed {result.seed} --world {each.world}  ({each.scene})")
        lines += [f"  {text}" for text in each.finding.detail[-1500:].splitlines()]
    return "\n".join(lines)
