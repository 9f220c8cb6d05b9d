"""What a bridge does to heads and leaves of bodies, frame by frame and byte by byte."""

import pytest

from stomprelay.relay.model.listener import LossPolicy
from tests.playbook import VERSIONS, Cut, in_all_cuts, in_all_pairs, joined

# One header line as each version spells it: name "path", value "C:\new", a colon and a backslash in it.
PATH = {b"1.0": b"path:C:\\new", b"1.1": b"path:C\\c\\\\new", b"1.2": b"path:C\\c\\\\new"}

# Header lines that a client says, and what a broker of each version is told.
LINES = [
    # plain lines are the same in every version
    (b"1.0", b"foo:bar", b"foo:bar", b"foo:bar", b"foo:bar"),
    (b"1.1", b"foo:bar", b"foo:bar", b"foo:bar", b"foo:bar"),
    (b"1.2", b"foo:bar", b"foo:bar", b"foo:bar", b"foo:bar"),
    # empty values
    (b"1.0", b"foo:", b"foo:", b"foo:", b"foo:"),
    (b"1.1", b"foo:", b"foo:", b"foo:", b"foo:"),
    (b"1.2", b"foo:", b"foo:", b"foo:", b"foo:"),
    # 1.0 knows no escapes: a backslash is a backslash, a second colon a colon
    (b"1.0", b"foo:a\\nb:c", b"foo:a\\nb:c", b"foo:a\\\\nb\\cc", b"foo:a\\\\nb\\cc"),
    (b"1.0", b"foo:\\", b"foo:\\", b"foo:\\\\", b"foo:\\\\"),
    (b"1.0", b"foo::", b"foo::", b"foo:\\c", b"foo:\\c"),
    # 1.0 may pad; toward 1.0 as it came, toward others the padding is gone
    (b"1.0", b"foo: bar", b"foo: bar", b"foo:bar", b"foo:bar"),
    (b"1.0", b"foo:  bar ", b"foo:  bar ", b"foo:bar ", b"foo:bar "),
    (b"1.0", b"foo :bar", b"foo :bar", b"foo :bar", b"foo :bar"),
    # a CR in 1.0 is an octet of the value
    (b"1.0", b"foo:a\rb", b"foo:a\rb", b"foo:a\rb", b"foo:a\\rb"),
    # a CR before the LF is an octet of the value in 1.1, and part of the line's end in 1.2
    (b"1.1", b"foo:bar\r", b"foo:bar ", b"foo:bar\r", b"foo:bar\\r"),
    (b"1.2", b"foo:bar\r", b"foo:bar", b"foo:bar", b"foo:bar\r"),
    # escapes of 1.1
    (b"1.1", b"foo:a\\cb", b"foo:a:b", b"foo:a\\cb", b"foo:a\\cb"),
    (b"1.1", b"foo:a\\\\b", b"foo:a\\b", b"foo:a\\\\b", b"foo:a\\\\b"),
    (b"1.1", b"foo:a\\nb", b"foo:a b", b"foo:a\\nb", b"foo:a\\nb"),
    (b"1.1", b"foo:a\\\\nb", b"foo:a\\nb", b"foo:a\\\\nb", b"foo:a\\\\nb"),
    (b"1.1", b"foo:a\\\\\\nb", b"foo:a\\ b", b"foo:a\\\\\\nb", b"foo:a\\\\\\nb"),
    (b"1.1", b"foo:a:b", b"foo:a:b", b"foo:a:b", b"foo:a:b"),
    (b"1.1", b"foo:a\rb", b"foo:a\rb", b"foo:a\rb", b"foo:a\\rb"),
    # escapes of 1.2
    (b"1.2", b"foo:a\\cb", b"foo:a:b", b"foo:a\\cb", b"foo:a\\cb"),
    (b"1.2", b"foo:a\\\\b", b"foo:a\\b", b"foo:a\\\\b", b"foo:a\\\\b"),
    (b"1.2", b"foo:a\\nb", b"foo:a b", b"foo:a\\nb", b"foo:a\\nb"),
    (b"1.2", b"foo:a\\rb", b"foo:a\rb", b"foo:a\rb", b"foo:a\\rb"),
    (b"1.2", b"foo:a\\r", b"foo:a ", b"foo:a ", b"foo:a\\r"),
    (b"1.2", b"foo:a\\\\rb", b"foo:a\\rb", b"foo:a\\\\rb", b"foo:a\\\\rb"),
    # blanks are part of a value in 1.1 and 1.2
    (b"1.1", b"foo:  x ", b"foo:  x ", b"foo:  x ", b"foo:  x "),
    (b"1.2", b"foo:  x ", b"foo:  x ", b"foo:  x ", b"foo:  x "),
    # octets above ASCII pass, whether or not they are UTF-8
    (b"1.0", b"foo:\xc5\xbc\xff", b"foo:\xc5\xbc\xff", b"foo:\xc5\xbc\xff", b"foo:\xc5\xbc\xff"),
    (b"1.1", b"foo:\xc5\xbc\\c\xff", b"foo:\xc5\xbc:\xff", b"foo:\xc5\xbc\\c\xff", b"foo:\xc5\xbc\\c\xff"),
    (b"1.2", b"foo:\xc5\xbc\\c\xff", b"foo:\xc5\xbc:\xff", b"foo:\xc5\xbc\\c\xff", b"foo:\xc5\xbc\\c\xff"),
    # header names are escaped as values are
    (b"1.0", b"a\\b:c", b"a\\b:c", b"a\\\\b:c", b"a\\\\b:c"),
    (b"1.1", b"a\\\\b:c", b"a\\b:c", b"a\\\\b:c", b"a\\\\b:c"),
    (b"1.2", b"a\\cb:c", None, b"a\\cb:c", b"a\\cb:c"),
    (b"1.2", b"a\\nb:c", None, b"a\\nb:c", b"a\\nb:c"),
    (b"1.1", b"a\\cb:c", None, b"a\\cb:c", b"a\\cb:c"),
]

CELLS = [
    pytest.param(row[0], broker, row[1], got, id=f"{row[0].decode()}-{broker.decode()}-{row[1]!r}")
    for row in LINES
    for broker, got in zip(VERSIONS, row[2:], strict=True)
]


@pytest.mark.parametrize(("client", "broker", "said", "got"), CELLS)
def test_header_lines_of_a_client(client: bytes, broker: bytes, said: bytes, got: bytes | None) -> None:
    """Each header line that a version can spell reaches a broker of each version as that one spells it."""
    told = b"" if got is None else got + b"\n"
    with joined(client, broker) as play:
        play.client_says(b"SEND\ndestination:/queue/a\n" + said + b"\n\nhello\0")
        play.broker_gets(b"SEND\ndestination:/queue/a\n" + told + b"\nhello\0")


@in_all_cuts
@in_all_pairs
def test_send_in_all_pairs(client: bytes, broker: bytes, cut: Cut) -> None:
    """Headers arrive in their order, respelled; the body, `content-length` and `content-type` as they came."""
    with joined(client, broker, cut=cut) as play:
        for frame in (
            b"SEND\nz:1\ndestination:/queue/a\nPATH\nz:2\ncontent-type:text/plain\n\nhello\0",
            b"SEND\ndestination:/queue/a\ncontent-length:5\n\nhello\0",
            b"SEND\ndestination:/queue/a\nPATH\ncontent-length:0\n\n\0",
        ):
            play.client_tells_broker(*(frame.replace(b"PATH", PATH[version]) for version in (client, broker)))


@in_all_pairs
@pytest.mark.parametrize("behind", [b"", b"\n", b"\r\n", b"\n\n\n", b"\0\n"], ids=repr)
def test_between_frames_at_most_one_lf_passes(client: bytes, broker: bytes, behind: bytes) -> None:
    """The LF that brokers write behind a frame may pass with it; a CR or a NUL between frames never does."""
    send = b"SEND\ndestination:/queue/a\n\nx\0"
    message = b"ERROR\nmessage:x\n\ny\0"
    with joined(client, broker) as play:
        play.client_says((send + behind) * 3)
        assert play.broker_reads() in (send * 3, (send + b"\n") * 3)
        play.broker_says((message + behind) * 3)
        assert play.client_reads() in (message * 3, (message + b"\n") * 3)


@in_all_pairs
def test_beats_are_never_carried(client: bytes, broker: bytes) -> None:
    """EOLs on one leg are that leg's own."""
    with joined(client, broker) as play:
        play.client_says(b"\n")
        play.client_says(b"\r\n\n")
        play.broker_says(b"\n\n")
        play.client_gets(b"")
        play.broker_gets(b"")


@in_all_cuts
@in_all_pairs
def test_forged_headers_never_leave_a_publisher(client: bytes, broker: bytes, cut: Cut) -> None:
    """Headers that only a broker may set are taken out of a SEND, repeated ones too, and counted."""
    with joined(client, broker, cut=cut) as play:
        play.client_says(
            b"SEND\nsubscription:1\ndestination:/queue/a\nmessage-id:9\nack:forged\nfoo:bar\nack:again\n"
            b"redelivered:true\nreceipt-id:r\nJMSXUserID:root\n\nhello\0"
        )
        play.broker_gets(b"SEND\ndestination:/queue/a\nfoo:bar\n\nhello\0")
        assert play.counters["loss_reserved"] >= 6


# What a version cannot say, under each policy: client, broker, the line, and what is told the broker.
LOSSES = [
    (b"1.1", b"1.0", b"foo:a\\nb", LossPolicy.REPLACE, b"foo:a b\n", "loss_value"),
    (b"1.1", b"1.0", b"foo:a\\nb", LossPolicy.PERCENT, b"foo:a%0Ab\n", "loss_value"),
    (b"1.2", b"1.0", b"foo:a\\nb", LossPolicy.REPLACE, b"foo:a b\n", "loss_value"),
    (b"1.2", b"1.0", b"foo:a\\nb", LossPolicy.PERCENT, b"foo:a%0Ab\n", "loss_value"),
    (b"1.2", b"1.0", b"foo:a\\r", LossPolicy.REPLACE, b"foo:a \n", "loss_value"),
    (b"1.2", b"1.0", b"foo:a\\r", LossPolicy.PERCENT, b"foo:a%0D\n", "loss_value"),
    (b"1.2", b"1.1", b"foo:a\\r", LossPolicy.REPLACE, b"foo:a \n", "loss_value"),
    (b"1.2", b"1.1", b"foo:a\\r", LossPolicy.PERCENT, b"foo:a%0D\n", "loss_value"),
    (b"1.2", b"1.0", b"foo:\\r\\n", LossPolicy.PERCENT, b"foo:%0D%0A\n", "loss_value"),
    (b"1.1", b"1.0", b"a\\cb:c", LossPolicy.REPLACE, b"", "loss_name"),
    (b"1.1", b"1.0", b"a\\cb:c", LossPolicy.PERCENT, b"", "loss_name"),
    (b"1.2", b"1.0", b"a\\nb:c", LossPolicy.REPLACE, b"", "loss_name"),
    (b"1.2", b"1.0", b"a\\nb:c", LossPolicy.PERCENT, b"", "loss_name"),
]


@pytest.mark.parametrize(("client", "broker", "line", "loss", "told", "counter"), LOSSES)
def test_losses_follow_the_policy_and_are_counted(
    client: bytes, broker: bytes, line: bytes, loss: LossPolicy, told: bytes, counter: str
) -> None:
    """What a version cannot spell is replaced, percented or left out, and each time counted."""
    with joined(client, broker, loss=loss) as play:
        play.client_says(b"SEND\ndestination:/queue/a\n" + line + b"\n\n1\0")
        play.broker_gets(b"SEND\ndestination:/queue/a\n" + told + b"\n1\0")
        assert play.counters[counter] == 1
        play.client_says(b"SEND\ndestination:/queue/b\n" + line + b"\n\n2\0")
        play.broker_gets(b"SEND\ndestination:/queue/b\n" + told + b"\n2\0")
        assert play.counters[counter] == 2


REFUSALS = [
    (b"1.1", b"1.0", b"foo:a\\nb"),
    (b"1.2", b"1.0", b"foo:a\\nb"),
    (b"1.2", b"1.0", b"foo:a\\r"),
    (b"1.2", b"1.1", b"foo:a\\r"),
    (b"1.1", b"1.0", b"foo\\c:b"),
    (b"1.2", b"1.0", b"foo\\n:b"),
]


@pytest.mark.parametrize(("client", "broker", "line"), REFUSALS)
def test_a_loss_can_be_refused(client: bytes, broker: bytes, line: bytes) -> None:
    """With `loss = "reject"` the frame is answered with an ERROR that names it, and nothing goes out."""
    with joined(client, broker, loss=LossPolicy.REJECT) as play:
        play.client_says(b"SEND\ndestination:/queue/a\nreceipt:7\n" + line + b"\n\n1\0")
        play.client_gets_error(b"a header cannot be said in the other version", receipt=b"7")
        play.broker_gets(b"")
        play.broker_is_closed()
        assert (play.counters["loss_value"], play.counters["loss_name"]) == (0, 0)


def test_a_loss_of_a_message_can_be_refused() -> None:
    """The ERROR names no receipt: RabbitMQ hands on the `receipt` of the SEND, which may be that of another client."""
    with joined(b"1.0", b"1.2", loss=LossPolicy.REJECT) as play:
        play.client_says(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
        play.broker_says(
            b"MESSAGE\nsubscription:1\nmessage-id:1\ndestination:/queue/a\nreceipt:7\nfoo:a\\nb\n\n\0"
        )
        play.client_gets_error(b"a header cannot be said in the other version")
        play.broker_reads()


def test_a_header_injection_is_impossible() -> None:
    """An escaped LF in a value or a name never becomes a line of its own toward 1.0."""
    with joined(b"1.2", b"1.0") as play:
        play.client_says(b"SEND\ndestination:/queue/a\nfoo:a\\ndestination\\c/queue/b\nx\\ny:z\n\n1\0")
        play.broker_gets(b"SEND\ndestination:/queue/a\nfoo:a destination:/queue/b\n\n1\0")


@in_all_pairs
def test_frames_split_anywhere_are_carried_the_same(client: bytes, broker: bytes) -> None:
    """One cut at every place of a conversation makes no difference."""
    said = (
        b"SEND\ndestination:/queue/a\n" + PATH[client] + b"\ncontent-length:3\n\na\0b\0\n"
        b"SEND\r\ndestination:/queue/\xc5\xbc\r\n\r\nhello\0"
    )
    told = b"SEND\ndestination:/queue/a\n" + PATH[broker] + b"\ncontent-length:3\n\na\0b\0"
    second = b"SEND\r\ndestination:/queue/\xc5\xbc\r\n\r\nhello\0"
    if client != broker:
        second = second.replace(b"\r", b"")
    for at in range(1, len(said)):
        with joined(client, broker) as play:
            play.client_says(said[:at])
            play.client_says(said[at:])
            assert play.broker_reads() in (told + second, told + b"\n" + second)
