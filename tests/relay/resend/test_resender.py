"""A client's frames on their way to a broker, and to the next: what is written, what is kept, what is asked for."""

import re
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.bridge import bridges_between, to_broker
from stomprelay.relay.effects import Outbox
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.resend.resender import Resender
from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg, Side
from stomprelay.session.session import Session
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import CLIENT_COMMANDS
from tests.playbook import PAIRS
from tests.relay.frames import ASKING, BEGIN, INSIDE, SEND, SUBSCRIBE


class Scene:
    """A client called `s`, its resender and a broker; `runs`: what may pass so comes in runs, both ways."""

    def __init__(
        self,
        client: bytes = b"1.2",
        broker: bytes = b"1.2",
        *,
        cumulative: bool = False,
        runs: bool = False,
        **settings: Any,
    ) -> None:
        self.runs = runs
        self.counters = Counters()
        self.session = Session(b"s", DIALECTS[client], 100, self.counters)
        self.outbox = Outbox()
        self.resender = Resender(
            self.session,
            self.outbox,
            Limits(),
            most=settings.pop("most", 10_000),
            confirm=settings.pop("confirm", False),
        )
        self.decoder = Decoder(DIALECTS[client], CLIENT_COMMANDS, Limits())
        self.leg: Leg | None = None
        self.broker = Broker("tcp://a", "tcp:a:61613")
        self.writes_made = 0
        assert not settings
        self.connects(broker, cumulative=cumulative)

    def connects(self, broker: bytes = b"1.2", *, cumulative: bool = False) -> None:
        """There is a broker of this version."""
        version = self.session.dialect.version
        bridges = bridges_between(version, broker, "generic", LossPolicy.REPLACE, tracked=True)
        bridge = bridges.to_broker
        self.passing = to_broker(bridges, self.session, sends=True, parts=not cumulative, alike=cumulative)
        self.leg = Leg(Side.UPSTREAM, Limits())
        self.resender.connected(self.leg, bridge, self.broker, cumulative=cumulative, commits_early=False)

    def sends(self, data: bytes) -> bytes:
        """The client sends this in one chunk. Returns what is written of it."""
        self.decoder.feed(data)
        for frame in self.decoder.runs(self.passing) if self.runs else self.decoder.frames():
            self.resender.send(frame)
        return self.writes()

    def hears(self, receipts: list[bytes]) -> list[bytes]:
        """The broker sends RECEIPTs in one chunk. Returns those that are the client's."""
        if self.runs and self.resender.received_all(receipts):
            return []
        return [receipt for receipt in receipts if self.resender.received(receipt)]

    def loses(self) -> list[bytes | None]:
        """The broker is lost. Returns the COMMITs whose outcome is unknown."""
        return self.resender.lost(by=None, now=7.0)

    def again(self, broker: bytes = b"1.2", *, cumulative: bool = False) -> bytes:
        """The next broker. Returns what it is sent."""
        self.connects(broker, cumulative=cumulative)
        self.resender.replay(subscriptions=True, now=7.0)
        return self.writes()

    def writes(self) -> bytes:
        """What is written since the last time, in at most one piece."""
        self.resender.flush(7.0)
        effects = self.outbox.drain()
        assert len(effects) <= 1
        self.writes_made += len(effects)
        data = b""
        for effect in effects:
            assert isinstance(effect, Send)
            assert effect.leg is self.leg
            assert effect.leg.heartbeat.sent_at == 7.0
            data = effect.data
            assert data
        return data.replace(b"\0\n", b"\0")

    def given(self) -> list[bytes]:
        """The receipts that the relay gives, since the last look."""
        return self.resender.unconfirmed.take_given()


SENDS = [SEND % b"x", SEND % b"longer", SEND % b"a\nb"]
FRAMES = [*SENDS, ASKING % (b"r", b"y"), INSIDE % b"z", SUBSCRIBE, BEGIN]


def plain(sent: bytes) -> bytes:
    """What was written without what the resender put in front."""
    return re.sub(rb"\n(?:relay-resent:true|receipt:s-receipt-\d+)(?=\n)", b"", sent)


@given(
    versions=st.sampled_from(PAIRS),
    frames=st.lists(st.sampled_from(FRAMES), max_size=8),
    cuts=st.lists(st.integers(0, 600), max_size=5),
    confirm=st.booleans(),
    cumulative=st.booleans(),
)
def test_any_frames_in_any_chunks(
    versions: tuple[bytes, bytes], frames: list[bytes], cuts: list[int], confirm: bool, cumulative: bool
) -> None:
    """Whatever the chunks, all frames arrive in order, with nothing but receipts put in front; all is kept."""
    scene = Scene(*versions, confirm=confirm, cumulative=cumulative)
    sent = b"".join(_once(frames))
    edges = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    written = b"".join(scene.sends(sent[start:stop]) for start, stop in pairwise(edges))
    assert plain(written) == sent
    begun, kept = False, []
    for frame in _once(frames):
        begun = begun or frame == BEGIN
        inside = begun and b"transaction" in frame
        if frame.startswith(b"SEND") and not inside and (confirm or b"receipt" in frame):
            kept.append(frame)
    open_ones = scene.session.transactions.values()
    scene.loses()
    again = plain(scene.again(versions[1], cumulative=not cumulative))
    assert again == b"".join(
        [
            *([SUBSCRIBE] if SUBSCRIBE in frames else []),
            *kept,
            *[frame for transaction in open_ones for frame in transaction.frames],
        ]
    )


@given(st.data(), st.booleans())
def test_in_runs_or_one_by_one(data: st.DataObject, cumulative: bool) -> None:
    """Whatever is said, confirmed in any order and lost in between: the same is written, kept and given."""
    scenes = [Scene(confirm=True, cumulative=cumulative, runs=runs) for runs in (True, False)]
    asked: list[bytes] = []
    number = 0
    for _ in range(data.draw(st.integers(1, 8), "steps")):
        match data.draw(st.sampled_from(["says", "says", "hears", "hears", "loses"])):
            case "says":
                kinds = data.draw(
                    st.lists(st.sampled_from([SEND, SEND, SEND, ASKING]), min_size=1, max_size=6)
                )
                chunk = b""
                for kind in kinds:
                    number += 1
                    body = b"%d" % number
                    chunk += SEND % body if kind is SEND else ASKING % (b"r" + body, body)
                written, other = [scene.sends(chunk) for scene in scenes]
            case "hears" if asked:
                start = data.draw(st.integers(0, len(asked) - 1))
                some = asked[start : start + data.draw(st.integers(1, 6))]
                some = data.draw(st.permutations(some)) if data.draw(st.booleans()) else some
                some = [*some, *data.draw(st.sampled_from([[], [], some[:1], [b"unknown"]]))]
                asked = [each for each in asked if each not in some]
                heard, alike = [scene.hears(some) for scene in scenes]
                assert heard == alike
                continue
            case _:
                cumulative = data.draw(st.booleans())
                assert scenes[0].loses() == scenes[1].loses()
                assert scenes[0].given() == scenes[1].given()
                asked.clear()
                written, other = [scene.again(cumulative=cumulative) for scene in scenes]
        assert written == other
        asked += re.findall(rb"\nreceipt:([^\n]*)\n", written)
        first, second = [scene.resender.unconfirmed for scene in scenes]
        assert (first.sends, first.size) == (second.sends, second.size)
        assert (first.safe, first.owed_receipts) == (second.safe, second.owed_receipts)
        assert (first.cost, first.unproved) == (second.cost, second.unproved)


def _once(frames: list[bytes]) -> list[bytes]:
    """Each SUBSCRIBE and BEGIN once only."""
    found: list[bytes] = []
    for frame in frames:
        if frame.startswith(b"SEND") or frame not in found:
            found.append(frame)
    return found
