"""`stomprelay tail`: a small HTTP server stands in for the relay, which says what is laid out for it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from stomprelay.cli import main
from stomprelay.journal.block import BlockKind, encode, pack_sizes
from stomprelay.journal.schema import VERSION, Context, EventRecord, JournalSide, SegmentHeader
from stomprelay.journal.tail import LONGEST_BODY, TailAnswer, TailRequest
from stomprelay.remote.client import AdminClient, AdminError
from stomprelay.remote.commands import POLL, tail, watch
from tests.fake_admin import Relay, serving_relay

CONTEXT = Context("public", "relay-0-1", "192.0.2.7:4711", "me", JournalSide.CLIENT.value, version="1.2")
HEADER = encode(0, 1, 0, b"", b"", SegmentHeader(VERSION, "here", "0" * 8, 1, 1, 10.0, "tests").encode())
SECOND = 10**9


def sent(at: int, head: bytes = b"SEND\ndestination:/queue/a\n\n", body: bytes = b"") -> bytes:
    """A segment with one frame, whose body has 5 octets, so many seconds behind 1970."""
    sizes = pack_sizes(len(head), len(body), 5)
    return HEADER + encode(int(BlockKind.FRAMES), at * SECOND, 0, CONTEXT.encode(), sizes, head + body)


def happened(at: int) -> bytes:
    """A segment with an event."""
    payload = EventRecord("failover", "as the relay says", {}).encode()
    return HEADER + encode(
        int(BlockKind.EVENT), at * SECOND, 0, CONTEXT._replace(side="").encode(), b"", payload
    )


@pytest.fixture
def relay() -> Iterator[Relay]:
    """A relay that can be watched."""
    with serving_relay() as relay:
        yield relay


class Enough(Exception):
    """The test has seen what it wants."""


@dataclass
class Terminal:
    """What is printed, and where; it is left after so many answers."""

    answers: int = 1
    slept: list[float] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) >= self.answers:
            raise Enough

    def watches(self, relay: Relay, *answers: TailAnswer, **options: Any) -> None:
        """Watch until there is no more answer."""
        relay.answer("/tail", *(each.spell().encode() for each in answers))
        self.answers = len(answers)
        request = watch((), (), (), options.pop("bodies", 0))
        printed = self.lines.append, self.remarks.append
        with pytest.raises(Enough):
            tail(AdminClient(relay.place), request, None, *printed, self.sleep, **options)


def test_what_passes_is_shown_as_it_passes(relay: Relay) -> None:
    """A line for each frame and event, those of several workers in the order of time; a quarter of a second apart."""
    terminal = Terminal()
    terminal.watches(relay, TailAnswer(began=True), TailAnswer(), TailAnswer(sent(3) + happened(1) + sent(2)))
    assert terminal.lines == [
        "1970-01-01T00:00:01.000000Z relay-0-1 me -- failover: as the relay says",
        "1970-01-01T00:00:02.000000Z relay-0-1 me -> SEND destination:/queue/a (5 octets)",
        "1970-01-01T00:00:03.000000Z relay-0-1 me -> SEND destination:/queue/a (5 octets)",
    ]
    assert terminal.slept == [POLL] * 3
    assert terminal.remarks == []


def test_what_is_asked(relay: Relay) -> None:
    """The same each time, and at the end that it is the end; another name for each who asks."""
    Terminal().watches(relay, TailAnswer(began=True), TailAnswer())
    (said, *others, last) = [said for _, path, said, _ in relay.asked if path == "/tail"]
    assert others == [said]
    assert last == {**said, "over": True}
    assert TailRequest.parse(json.dumps(said).encode()) == TailRequest(said["watch"])
    assert watch((), (), (), 0).watch != said["watch"]


def test_a_terminal_is_not_controlled(relay: Relay) -> None:
    """What a client sent is shown, nothing of it is done."""
    terminal = Terminal()
    escapes = sent(1, b"SEND\nx:\033[2J\n\n", b"\033[31")
    terminal.watches(relay, TailAnswer(escapes), bodies=4)
    assert [line[41:] for line in terminal.lines] == [r"-> SEND x:\x1b[2J (5 octets)", "", ""]
    assert terminal.lines[1:] == [r"    | \x1b[31", "    | ... 4 of 5 octets were kept"]


def test_in_json(relay: Relay, capsys: pytest.CaptureFixture[str]) -> None:
    """The columns of the table `frames`, without a place in a journal; remarks go to standard error."""
    terminal = Terminal()
    terminal.watches(relay, TailAnswer(sent(1, body=b"he")), as_json=True, bodies=2)
    assert [json.loads(line) for line in terminal.lines] == [
        {
            "seen_at": "1970-01-01T00:00:01.000000Z", "ns": SECOND, "relay": "here", "listener": "public",
            "session": "relay-0-1", "peer": "192.0.2.7:4711", "client": "me", "side": "client", "version": "1.2",
            "direction": "to_broker", "kind": "frame", "command": "SEND", "headers": {"destination": "/queue/a"},
            "size": 33, "body_size": 5, "body": "he",
        }
    ]  # fmt: skip
    relay.answer("/tail", TailAnswer(left_out=5).spell().encode(), TailAnswer(sent(1)).spell().encode())
    assert main(["tail", "--admin", relay.place, "--json", "--count", "1"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["command"] == "SEND"
    assert printed.err == "... 5 left out: more passed than is kept until it is asked for\n"


def test_what_is_missing_is_told(relay: Relay) -> None:
    """Behind what was shown before it; that it begins goes without saying."""
    terminal = Terminal()
    lines = terminal.lines
    terminal.remarks = lines
    terminal.watches(
        relay, TailAnswer(began=True), TailAnswer(sent(1), 1234, True, ("worker 2",)), TailAnswer(sent(2))
    )
    assert [line[:24] if "SEND" in line else line for line in lines] == [
        "1970-01-01T00:00:01.0000",
        "... worker 2 did not answer",
        "... 1234 left out: more passed than is kept until it is asked for",
        "... some left out: the relay, or a worker of it, was not asked for long, or is new",
        "1970-01-01T00:00:02.0000",
    ]


def test_sessions_that_end(relay: Relay, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said behind what passed them, and with the last of them the command ends, well."""
    answers = (
        TailAnswer(began=True, sessions=("a", "b")),
        TailAnswer(sessions=(), missing=("worker 2",)),
        TailAnswer(sent(1), sessions=("b",)),
        TailAnswer(sent(2)),
    )
    relay.answer("/tail", *(each.spell().encode() for each in answers))
    assert main(["tail", "--admin", relay.place, "--session", "a", "--session", "b"]) == 0
    assert [line.partition("octets")[1] or line for line in capsys.readouterr().out.splitlines()] == [
        "... worker 2 did not answer", "octets", "... the session ended: a", "octets", "... the session ended: b",
    ]  # fmt: skip
    assert relay.asked[-1][2]["over"]


@pytest.mark.parametrize("began", [True, False], ids=["a relay", "no worker serves yet"])
def test_a_session_that_is_not_there(relay: Relay, capsys: pytest.CaptureFixture[str], began: bool) -> None:
    """Nobody waits for it, and the relay is told."""
    relay.answer("/tail", TailAnswer(began=began, sessions=("a",)).spell().encode())
    assert main(["tail", "--admin", relay.place, "--session", "a", "--session", "nonsuch"]) == 1
    assert capsys.readouterr().err.endswith('there is no session "nonsuch"\n')
    assert relay.asked[-1][2]["over"]


def test_an_answer_that_cannot_be_read(relay: Relay) -> None:
    """It is said, and nothing is made up."""
    relay.answer("/tail", TailAnswer(sent(1)[:-1]).spell().encode())
    with pytest.raises(AdminError, match="cannot be read here"):
        tail(AdminClient(relay.place), watch((), (), (), 0), None, print, print)
    relay.answer("/tail", b'{"segment": ""}')
    with pytest.raises(AdminError, match="no relay that can be asked for that"):
        tail(AdminClient(relay.place), watch((), (), (), 0), None, print, print)


def test_as_many_as_were_asked_for(relay: Relay, capsys: pytest.CaptureFixture[str]) -> None:
    """The command ends then, well."""
    relay.answer("/tail", TailAnswer(sent(1) + sent(2) + happened(3)).spell().encode())
    assert main(["tail", "--admin", relay.place, "--count", "2", "--listener", "public", "--session", "a",
                 "--session", "b", "--destination", "/queue/*", "--bodies", "3"]) == 0  # fmt: skip
    assert capsys.readouterr().out.count("SEND") == 2
    asked = [said for _, path, said, _ in relay.asked if path == "/tail"]
    assert [each.pop("over") for each in asked] == [False, True]
    assert asked[0] == {
        "watch": asked[0]["watch"], "sessions": ["a", "b"], "listeners": ["public"],
        "destinations": ["/queue/*"], "bodies": 3,
    }  # fmt: skip


def test_ctrl_c(relay: Relay, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The relay is told, and nothing is said; if the relay is gone, that is all the same."""

    def interrupted(then: Callable[[], object]) -> Callable[..., None]:
        def sleep(_: float) -> None:
            then()
            raise KeyboardInterrupt

        return sleep

    relay.answer("/tail", TailAnswer().spell().encode())
    options = AdminClient(relay.place), watch((), (), (), 0), None, print, print
    with pytest.raises(KeyboardInterrupt):
        tail(*options, interrupted(lambda: None))
    assert relay.asked[-1][2]["over"]
    with pytest.raises(KeyboardInterrupt):
        tail(*options, interrupted(lambda: relay.answer("/tail", (503, b'{"error": "gone"}'))))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "wrong", [["--bodies", "-1"], ["--bodies", str(LONGEST_BODY + 1)], ["--bodies", "all"], ["--count", "0"]]
)
def test_options_that_cannot_be(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """They are named."""
    with pytest.raises(SystemExit, match="2"):
        main(["tail", *wrong])
    assert f"argument {wrong[0]}: must be a" in capsys.readouterr().err
