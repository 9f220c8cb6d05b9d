"""Queues that are drained from one real broker to another, while the command or a broker is killed."""

import contextlib
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker, memory
from tests.e2e.child import Child, wait_until
from tests.e2e.fleet import CUT, KILL, Fault, Node, nodes
from tests.e2e.load import drain
from tests.e2e.raw import body, headers
from tests.e2e.relay import ROOT, launch, run
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e

PAIRS = [("activemq", "rabbitmq"), ("rabbitmq", "artemis"), ("artemis", "activemq")]
"""Each product once as the old broker, and once as the new one."""
MESSAGES = 300
NAMES = 'names = [["/queue/{name}", "/queue/{name:percent}"]]'


def upstream(name: str, node: Node) -> str:
    """Return the table of an upstream."""
    names = f"[upstream.{name}.map]\n{NAMES}\n" if node.broker.name == "rabbitmq" else ""
    return f"""
[upstream.{name}]
uri = "failover:({node.uri})?initialReconnectDelay=100"
login = "guest"
passcode = "guest"
heart_beat = [500, 500]
{names}"""


class Stage:
    """Two brokers, and a queue whose name has a slash: RabbitMQ spells it otherwise."""

    def __init__(self, directory: Path, old: Node, new: Node, queue: str) -> None:
        self.old, self.new = old, new
        self.queue = f"{queue}/orders"
        self.directory = directory
        (directory / "relay.toml").write_text(upstream("old", old) + upstream("new", new))

    def at(self, node: Node) -> str:
        """Return the queue as this broker spells it."""
        return self.queue.replace("/orders", "%2Forders") if node.broker.name == "rabbitmq" else self.queue

    def fill(self, count: int = MESSAGES) -> list[bytes]:
        """Put messages into the queue of the old broker."""
        bodies = [b"%d" % number for number in range(count)]
        with Talker.at(self.old.broker.port) as client:
            client.send(self.at(self.old), *bodies, priority="7", correlation_id="c-1")
        return bodies

    def drain(self, *options: str) -> Child:
        """Start the command."""
        command = [sys.executable, "-m", "stomprelay", "move", "drain", "-c", "relay.toml", "--json"]
        command += ["--from", "old", "--to", "new", "--idle", "1", *options, self.queue]
        return launch(self.directory, command)

    def left(self) -> list[bytes]:
        """Take what is at the old broker."""
        return drain(self.old.broker.port, self.at(self.old))

    @contextlib.contextmanager
    def reading(self) -> Iterator["Reader"]:
        """Read the queue at the new broker from now on."""
        with Talker.at(self.new.broker.port) as client:
            routing = {"subscription_type": "ANYCAST"} if self.new.broker.name == "artemis" else {}
            client.ask("SUBSCRIBE", destination=self.at(self.new), id="1", ack="client-individual", **routing)
            yield Reader(client)


class Reader:
    """A consumer at the new broker. `bodies`: what came, each once. `unsure`: what may be delivered again."""

    def __init__(self, client: Talker) -> None:
        self.client = client
        self.frames: list[bytes] = []
        self.bodies: list[bytes] = []
        self.unsure: list[bytes] = []

    def read_until(self, count: int) -> None:
        """Read until so many different messages have come. What comes again must be marked."""
        while len(self.bodies) < count:
            self.one()

    def one(self) -> None:
        """Read and acknowledge one message."""
        frame = self.client.message()
        self.client.acknowledge(frame)
        self.frames.append(frame)
        if body(frame) in self.bodies:
            marks = [headers(frame).get(each) for each in (b"relay-resent", b"redelivered")]
            assert b"true" in marks or body(frame) in self.unsure, frame
        else:
            self.bodies.append(body(frame))

    def rest(self, stage: Stage) -> None:
        """Read what is left, up to a message of our own."""
        with Talker.at(stage.new.broker.port) as client:
            client.send(stage.at(stage.new), b"last")
        while b"last" not in self.bodies:
            self.one()
        self.bodies.remove(b"last")


def ended(command: Child) -> tuple[int, dict[str, object]]:
    """Wait for the end of a command. Return its exit status and its result."""
    found = command.wait_for_output(r"^\{.*\}$").group()
    assert command.exited(within=60)
    return command.stop(), json.loads(found)


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path, queue: str) -> Iterator[Stage]:
    """Two brokers of the products of the test's parameter."""
    brokers: Sequence[Broker] = [request.getfixturevalue(name) for name in request.param]
    with nodes(*brokers) as (old, new):
        yield Stage(tmp_path, old, new, queue)


@pytest.mark.broker
@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(pair, marks=[pytest.mark.ci] * bool(number), id="-".join(pair))
        for number, pair in enumerate(PAIRS)
    ],
    indirect=True,
)
def test_a_command_that_is_killed_goes_on_when_it_is_run_again(stage: Stage) -> None:
    """Each message is at the new broker once, or marked; the order is kept; nothing is left at the old one."""
    bodies = stage.fill()
    with stage.reading() as reader:
        command = stage.drain("--rate", "200")
        reader.read_until(MESSAGES // 3)
        command.stop(signal.SIGKILL)
        status, told = ended(stage.drain())
        assert (status, told["drained"], told["unconfirmed"]) == (0, True, 0)
        assert isinstance(told["moved"], int)
        assert told["moved"] <= MESSAGES - MESSAGES // 3 + len(bodies)
        reader.rest(stage)
    assert reader.bodies == bodies
    sample = headers(reader.frames[0])
    assert (sample[b"priority"], sample[b"correlation-id"], sample[b"persistent"]) == (b"7", b"c-1", b"true")
    assert b"relay-drained" in sample
    assert stage.left() == []


@pytest.mark.broker
@pytest.mark.deep
@pytest.mark.parametrize(
    "fault", [pytest.param(KILL, marks=pytest.mark.long), CUT], ids=lambda each: each.name
)
@pytest.mark.parametrize("side", ["old", "new"])
@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(pair, marks=[] if number else [pytest.mark.ci], id="-".join(pair))
        for number, pair in enumerate(PAIRS)
    ],
    indirect=True,
)
def test_a_broker_that_is_lost_is_tried_again(stage: Stage, side: str, fault: Fault) -> None:
    """The command goes on when the broker is back: each message is there once, or marked."""
    bodies = stage.fill()
    node: Node = getattr(stage, side)
    command = stage.drain("--rate", "300")
    with stage.reading() as reader:
        reader.read_until(MESSAGES // 3)
        if side == "new":
            reader.client.close()
        fault.inject(node)
        fault.begin_healing(node)
        node.heal()
        if side == "old":
            reader.read_until(MESSAGES)
    if side == "new":
        with stage.reading() as again:
            # A broker that is killed may forget the ACK of what was read last.
            again.bodies, again.unsure = reader.bodies, reader.bodies[-1:]
            again.read_until(MESSAGES)
            reader = again
    status, told = ended(command)
    assert (status, told["drained"], told["unconfirmed"]) == (0, True, 0), told
    if side == "old" and stage.old.broker.name == "activemq":
        # Until it has seen the loss, it delivers to the next connection what is behind the messages of the lost one.
        reader.bodies.sort(key=int)
    assert reader.bodies == bodies
    assert stage.left() == []


@pytest.mark.broker
@pytest.mark.ci
@pytest.mark.parametrize("stage", PAIRS[:1], indirect=True, ids="-".join)
def test_competing_workers_get_their_share_meanwhile(stage: Stage) -> None:
    """The command takes few messages at a time, so that a worker at the old broker is served as well."""
    bodies = stage.fill(1000)
    command = stage.drain("--rate", "100")
    with stage.reading() as reader, Talker.at(stage.old.broker.port) as worker:
        reader.read_until(1)
        worker.ask(
            "SUBSCRIBE",
            destination=stage.at(stage.old),
            id="1",
            ack="client-individual",
            **{"activemq.prefetchSize": "10"},
        )
        own = []
        for _ in range(100):
            message = worker.message()
            worker.acknowledge(message)
            own.append(body(message))
        worker.close()
        command.send(signal.SIGTERM)
        status, told = ended(command)
        assert (status, told["drained"]) == (1, False)
        assert "interrupted" in str(told["reasons"])
        status, told = ended(stage.drain())
        assert (status, told["drained"]) == (0, True)
        reader.rest(stage)
    assert sorted(map(int, {*own, *reader.bodies})) == sorted(map(int, bodies))
    wait_until(lambda: stage.left() == [])


def test_each_broker_of_a_list_is_drained(tmp_path: Path, queue: str) -> None:
    """By their URIs, and in words: each of them may have messages of its own. One that is not there is named."""
    with contextlib.ExitStack() as stack:
        brokers = []
        for name in ("a", "b", "new"):
            (tmp_path / name).mkdir()
            brokers.append(stack.enter_context(memory(tmp_path / name)))
        for number, broker in enumerate(brokers[:2]):
            with Talker.at(broker.port) as client:
                client.send(queue, *[b"%d-%d" % (number, each) for each in range(3)])
        (tmp_path / "passcode").write_text("guest\n")
        login = ["--login", "guest", "--passcode-file", str(tmp_path / "passcode"), "--idle", "0.5"]
        a, b, new = [each.uri for each in brokers]
        begin = [sys.executable, "-m", "stomprelay", "move", "drain", "--to", new, *login]
        done = run(ROOT, *begin, "--from", f"failover:({a},{b})", queue)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[:-1] == [
            f"{queue} at {a}: 3 messages moved, 9 bytes",
            f"{queue} at {b}: 3 messages moved, 9 bytes",
        ]
        assert "6 messages in " in done.stdout
        assert drain(brokers[2].port, queue) == [
            b"%d-%d" % (at, each) for at in range(2) for each in range(3)
        ]
        brokers[0].stop()
        done = run(ROOT, *begin, "--from", a, queue)
        assert done.returncode == 1
        assert done.stderr.startswith("stomprelay: not drained: the old broker was lost: ")
        assert "connection refused" in done.stderr.lower()
