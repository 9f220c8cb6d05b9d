"""What stands out: sentences at the top of the page, thresholds that are crossed first; and what was before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from stomprelay.pipeline.report import text
from stomprelay.pipeline.report.figure import Figure
from stomprelay.pipeline.report.findings import UNHEARD, Earlier, Findings
from stomprelay.pipeline.report.indicators import COMPARED, Indicator, Kind, Threshold, change
from stomprelay.pipeline.report.markup import Content, Sheet, figures, join, name, tag, when, words
from stomprelay.pipeline.report.outages import left
from stomprelay.pipeline.report.text import Micros
from stomprelay.pipeline.schema import KILLED

_NAMED: Final = 3
"""Names in one sentence, at most."""
_WORTH: Final = 1.5
"""A figure that is more than so many times what it was, or was, is worth a sentence."""
_LEAST: Final = {Kind.COUNT: 20, Kind.TIME: 10_000, Kind.SIZE: 1 << 20}
"""Changes of figures that are smaller than this before and now are not. Times are in microseconds."""
_PART: Final = 0.05
"""Where more than this share of a range has no records at its begin or end, that is said."""


@dataclass(frozen=True)
class Highlight:
    """A sentence, and the section of the page that tells more. `tone`: `bad`, or empty."""

    said: Markup
    target: str
    tone: str = ""


def highlights(findings: Findings, thresholds: Sequence[Threshold] = ()) -> list[Highlight]:
    """Return what stands out, in this order: thresholds that are crossed, thresholds that could not be judged, what
    went wrong, what changed.
    """
    told = [(one, one.crossed(findings)) for one in thresholds]
    return [
        *(_threshold(one, findings, "bad") for one, crossed in told if crossed),
        *(_threshold(one, findings, "") for one, crossed in told if crossed is None),
        *_wrong(findings),
        *_changed(findings),
    ]


def _threshold(one: Threshold, findings: Findings, tone: str) -> Highlight:
    indicator = one.indicator
    said = join(tag("b", indicator.name), f" ({indicator.about}): ", one.sentence(findings), ".")
    return Highlight(said, indicator.target, tone)


def _wrong(findings: Findings) -> Iterator[Highlight]:
    if findings.dropped:
        said = f"{text.plural(findings.dropped, 'frame')} are missing from all figures: the journal dropped them."
        yield Highlight(join(said), "quarantine", "bad")
    killed = [one for one in findings.runs if one.outcome == KILLED]
    if findings.killed:
        head = (
            "A relay was killed: "
            if findings.killed == 1
            else f"{text.count(findings.killed)} relays were killed: "
        )
        yield Highlight(
            join(head, _names(list(dict.fromkeys(one.relay for one in killed))), "."), "runs", "bad"
        )
    unconfirmed, unheard = (findings.outcomes.get(each, 0) for each in ("unconfirmed", UNHEARD))
    if unconfirmed:
        verb = "was" if unconfirmed == 1 else "were"
        said = f"{text.plural(unconfirmed, 'message')} {verb} neither delivered nor confirmed."
        yield Highlight(join(said), "outcomes", "bad")
    lost = findings.lost
    if lost:
        sessions = sum(one.sessions for one in lost)
        given_up = sum(one.given_up for one in lost)
        silence = max((one.silence_longest or 0 for one in lost), default=0)
        said = f", under {text.plural(sessions, 'session')}"
        said += f"; the longest silence was {text.duration(silence)}" if silence else ""
        said += f"; {text.count(given_up)} gave up" if given_up else ""
        which = _names(list(dict.fromkeys(one.broker for one in lost)))
        head = (
            "A broker was lost: " if len(lost) == 1 else f"Brokers were lost {text.count(len(lost))} times: "
        )
        yield Highlight(join(head, which, said, "."), "failovers", "bad")
    if findings.waiting:
        yield Highlight(join("Messages were left at brokers: ", left(findings), "."), "failovers", "bad")
    waits = [one for one in findings.stuck if one.still]
    if waits:
        head = "A consumer leaves" if len(waits) == 1 else f"{text.count(len(waits))} consumers leave"
        who = _names([one.client or "unnamed client" for one in waits])
        longest = text.duration(max(one.worst for one in waits))
        yield Highlight(
            join(f"{head} deliveries unanswered: ", who, f", the longest for {longest} so far."),
            "stuck",
            "bad",
        )
    errors = sum(findings.errors)
    if errors:
        worst = findings.troubles[0] if findings.troubles else None
        most = join(", most often: ", name(worst.text)) if worst else ""
        yield Highlight(join(text.plural(errors, "error"), most, "."), "errors", "bad")
    if unheard:
        ending = (
            "was sent to a topic where nobody got it"
            if unheard == 1
            else "were sent to topics where nobody got them"
        )
        said = f"{text.plural(unheard, 'message')} {ending}."
        yield Highlight(join(said), "outcomes")


def _names(names: Sequence[str]) -> Markup:
    shown: list[Content] = []
    for each in names[:_NAMED]:
        shown += [", " if shown else None, name(each)]
    more = len(names) - _NAMED
    return join(*shown, f" and {text.count(more)} more" if more > 0 else None)


def _changed(findings: Findings) -> Iterator[Highlight]:
    earlier, before = findings.earlier, findings.before
    if earlier is None:
        return
    if before is None:
        yield Highlight(_nothing(earlier), "compared" if not findings.empty else "main")
        return
    for said in _incomplete(findings, earlier):
        yield Highlight(said, "compared")
    for one in COMPARED:
        now, then = one.of(findings), one.of(before)
        # What was not there before is among what went wrong.
        if now is not None and then and _matters(one, now, then):
            sentence = f"{one.about[0].upper()}{one.about[1:]}: {one.kind.spell(now)}, {change(now, then, one.kind)} "
            sentence += f"({one.kind.spell(then)} the {earlier.period} before)."
            yield Highlight(join(sentence), "compared")
    if earlier.gone:
        head = f"Nothing passed any more, as it did the {earlier.period} before, at "
        yield Highlight(join(head, _names(earlier.gone), "."), "compared")


def _matters(one: Indicator, now: float, then: float) -> bool:
    low, high = sorted((now, then))
    if one.kind is Kind.SHARE:
        return high - low >= 0.01
    return high >= _LEAST[one.kind] and high > _WORTH * low


def _nothing(earlier: Earlier) -> Markup:
    return join(
        f"There is nothing to compare with: the tables have no records of the {earlier.period} before, ",
        *_range(earlier.since, earlier.until),
        ".",
    )


def _range(since: Micros, until: Micros) -> tuple[Markup | str, ...]:
    return when(since, "stamp"), " to ", when(until, "stamp"), Markup(' <span class="zone">UTC</span>')


def _incomplete(findings: Findings, earlier: Earlier) -> Iterator[Markup]:
    """Say of which part of the two ranges there are no records, at their ends."""
    span = findings.span
    here = [at for at, known in zip(span.starts, findings.recorded, strict=False) if known]
    ranges = (
        (f"the {earlier.period} before", earlier.since, earlier.until, earlier.first, earlier.last),
        (
            "this time",
            span.since,
            span.until,
            here[0] if here else None,
            here[-1] + span.step if here else None,
        ),
    )
    for what, since, until, first, last in ranges:
        if first is None or last is None:
            continue
        if max(first - since, until - last) > _PART * (until - since):
            yield join(f"Of {what} there are records only from ", *_range(first, last), ".")


def compared(findings: Findings) -> Figure | None:
    """Return the section that compares the main figures with those before; None if nobody asked for it."""
    earlier, before = findings.earlier, findings.before
    if earlier is None:
        return None
    key, title = "compared", f"Compared with the {earlier.period} before"
    if before is None:
        return Figure(key, title, _nothing(earlier))
    rows: list[list[str | Markup]] = []
    for one in COMPARED:
        now, then = one.of(findings), one.of(before)
        if now or then:
            spelled = [text.NOTHING if value is None else one.kind.spell(value) for value in (now, then)]
            about = tag("span", one.about[0].upper() + one.about[1:])
            rows.append([join(about, " ", tag("small", one.name)), *spelled, change(now, then, one.kind)])
    note = join("With what was from ", *_range(earlier.since, earlier.until), ".")
    sheet = Sheet(
        f"Main figures, and what they were the {earlier.period} before",
        [*words("Figure"), *figures("Now", f"The {earlier.period} before", "Change")],
        rows,
    )
    missing = [*_incomplete(findings, earlier)]
    if earlier.gone:
        missing.append(join("Destinations without messages now: ", _all(earlier.gone), "."))
    return Figure(key, title, join(note, *(join(" ", each) for each in missing)), sheet=sheet, open=True)


def _all(names: Sequence[str]) -> Markup:
    return join(*(join(", " if rank else "", name(each)) for rank, each in enumerate(names)))
