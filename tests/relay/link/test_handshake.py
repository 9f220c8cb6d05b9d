"""From CONNECT to CONNECTED: versions, identities, beats, and brokers that say no."""

from math import inf

import pytest

from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.profile import ACTIVEMQ, GENERIC, RABBITMQ
from stomprelay.session.effects import Event
from stomprelay.session.handshake import Credentials
from tests.playbook import (
    CUTS,
    SAY_HELLO,
    SAY_WELCOME,
    URI,
    VERSIONS,
    Cut,
    Playbook,
    in_all_cuts,
    in_cuts_of_halves,
    listener,
    upstream,
)

OLD = b"CONNECT\nlogin:u\npasscode:p\n\n\0"
MIDDLE = b"CONNECT\naccept-version:1.1\nhost:h\n\n\0"
NEW = b"STOMP\naccept-version:1.2\nhost:h\n\n\0"
BEATS = b"host:h\nheart-beat:10000,10000\n\n\0"
TO_1_1 = b"CONNECT\naccept-version:1.0,1.1\n" + BEATS
TO_1_2 = b"CONNECT\naccept-version:1.0,1.1,1.2\n" + BEATS
LOGIN = BEATS.replace(b"heart", b"login:u\npasscode:p\nheart")
WHOLE = b"server:x/1\nsession:s-1\nheart-beat:0,0\nversion:1.0\n"

# What a client says, what the broker is asked; the lines of CONNECTED as the broker says and as the client gets it.
HANDSHAKES = [
    (OLD, OLD, b"session:s-1\n", b"session:s-1\n"),
    (OLD, OLD, WHOLE, WHOLE),
    (OLD, OLD, b"version:1.1\nsession:s-1\n", b"version:1.0\nsession:s-1\n"),
    (OLD, OLD, b"version:1.2\nsession:s-1\nserver:x/1\n", b"version:1.0\nsession:s-1\nserver:x/1\n"),
    (
        MIDDLE.replace(b":1.1\nhost:h", b":1.0,1.1\nhost:h\nlogin:u\npasscode:p"),
        TO_1_1.replace(BEATS, LOGIN),
        *(b"session:s-1\n", b"session:s-1\nversion:1.1\n"),
    ),
    (MIDDLE, TO_1_1, *[b"version:1.1\nsession:s-1\nheart-beat:0,0\n"] * 2),
    (MIDDLE, TO_1_1, b"version:1.2\n", b"version:1.1\nsession:relay-session\n"),
    (NEW, TO_1_2, b"", b"version:1.2\nsession:relay-session\n"),
    (
        b"STOMP\naccept-version:1.2,1.1,1.0\nhost:h\nheart-beat:500,700\n\n\0",
        TO_1_2,
        b"version:1.1\nsession:s-1\nheart-beat:10000,10000\n",
        b"version:1.2\nsession:s-1\nheart-beat:1000,1000\n",
    ),
    (NEW.replace(b"\n", b"\r\n"), TO_1_2, b"version:1.2\r\nsession:s-1\r\n", b"version:1.2\nsession:s-1\n"),
]


@in_all_cuts
@pytest.mark.parametrize(("said", "asked", "answered", "got"), HANDSHAKES)
def test_a_handshake(said: bytes, asked: bytes, answered: bytes, got: bytes, cut: Cut) -> None:
    """Each leg is asked and answered in its own version, and everything else passes in its order."""
    with Playbook(cut=cut, hello=said) as play:
        play.broker_gets(b"")
        play.broker_accepts()
        play.broker_gets(asked)
        play.client_gets(b"")
        play.broker_tells_client(b"CONNECTED\n%b\n\0" % answered, b"CONNECTED\n%b\n\0" % got)
        play.both_stay()
        assert play.counters["sessions_opened"] == play.counters["sessions_connected"] == 1


@in_all_cuts
@pytest.mark.parametrize(("client", "broker"), [(b"1.2", b"1.2"), (b"1.2", b"1.0")], ids=bytes.decode)
def test_what_a_client_says_at_once_waits_for_its_broker(client: bytes, broker: bytes, cut: Cut) -> None:
    """Frames behind CONNECT are carried once CONNECTED came, in order, whether or not reading was paused."""
    for unasked in (False, True):
        asked = None if client == broker else frozenset({broker})
        with Playbook(listener(upstream(versions=asked)), cut=cut) as play:
            play.client_says(SAY_HELLO[client] + b"SEND\ndestination:/queue/a\n\n1\0", unasked=unasked)
            play.client_says(b"SEND\ndestination:/queue/a\n\n2\0", unasked=unasked)
            play.broker_welcomes(broker)
            assert play.client_reads().startswith(b"CONNECTED\n")
            play.broker_gets(b"SEND\ndestination:/queue/a\n\n1\0SEND\ndestination:/queue/a\n\n2\0")


def test_nothing_is_written_before_connect() -> None:
    """Artemis looks at the first octets for CONNECT: not even an EOL comes before, however long it takes."""
    with Playbook(hello=SAY_HELLO[b"1.0"]) as play:
        play.time_passes(9)
        play.broker_gets(b"")
        play.broker_accepts()
        play.broker_gets(b"CONNECT\n\n\0")
        play.time_passes(0.5)
        play.broker_gets(b"")


@pytest.mark.parametrize("spoken", [b"1.1", b"1.2", b"1.1,1.2", b"1.1, 1.2"], ids=bytes.decode)
def test_falling_back_to_what_the_broker_speaks(spoken: bytes) -> None:
    """A broker that refuses a version and names others is asked again, on a new connection, and remembered."""
    broker = Broker(URI, "tcp:broker:61613")
    front = listener(upstream(groups=alone(broker)))
    asked = spoken.replace(b" ", b"")
    told = b"CONNECT\naccept-version:" + asked + b"\nhost:/\nheart-beat:10000,10000\n\n\0"
    with Playbook(front, hello=SAY_HELLO[b"1.0"]) as play:
        play.broker_accepts()
        play.broker_gets(b"CONNECT\n\n\0")
        play.broker_says(b"ERROR\nversion:" + spoken + b"\nmessage:Version mismatch\n\nno\0")
        play.client_gets(b"")
        assert len(play.brokers) == 2
        assert play.brokers[0].closed is not None
        assert spoken[:3].decode() in play.noted(Event.RETRIED)
        play.broker_accepts()
        play.broker_gets(told)
        play.broker_tells_client(SAY_WELCOME[asked[-3:]], b"CONNECTED\nversion:1.0\nsession:s-1\n\n\0")
        play.client_says(b"SUBSCRIBE\ndestination:/queue/a\n\n\0")
        play.broker_gets(b"SUBSCRIBE\nid:relay-1\ndestination:/queue/a\n\n\0")
    assert broker.versions == frozenset(asked.split(b","))
    with Playbook(front, hello=SAY_HELLO[b"1.0"]) as play:
        play.broker_accepts()
        play.broker_gets(told)
        assert len(play.brokers) == 1


def test_what_a_broker_speaks_is_learnt_anew_once_it_was_away() -> None:
    """It may have been upgraded meanwhile."""
    broker = Broker(URI, "tcp:broker:61613")
    broker.versions = frozenset({b"1.0"})
    front = listener(upstream(groups=alone(broker)))
    with Playbook(front, hello=SAY_HELLO[b"1.2"]) as play:
        play.broker_refuses()
        play.client_gets_error(b"broker not available")
    with Playbook(front, hello=SAY_HELLO[b"1.2"]) as play:
        assert b"accept-version:1.0,1.1,1.2\n" in play.broker_is_asked()


DENIALS = [
    # RabbitMQ names its versions in every ERROR; that alone is no reason to try others
    b"ERROR\nmessage:Bad CONNECT\ncontent-type:text/plain\nversion:1.0,1.1,1.2\ncontent-length:39\n\n"
    b"Virtual host 'nosuchhost' access denied\0",
    b"ERROR\ncontent-type:text/plain\nmessage:User name [guest] or password is invalid.\n\n"
    b"User name [guest] or password is invalid.\0",
    b"ERROR\nmessage:a\\cb:c \\t\r\n\nlong\0",
    b"ERROR\nmessage:a\nversion:9.9\n\n\0",
    b"ERROR\n\n\0",
]


@pytest.mark.parametrize(("version", "cut"), list(zip(VERSIONS, CUTS, strict=False)))
@pytest.mark.parametrize("denial", DENIALS)
def test_an_error_of_connect_passes_whole(version: bytes, denial: bytes, cut: Cut) -> None:
    """A refused login reaches the client in the broker's own words, octet by octet, and both legs end."""
    with Playbook(cut=cut, hello=SAY_HELLO[version]) as play:
        play.broker_is_asked()
        play.broker_tells_client(denial)
        play.both_are_closed()
        play.broker_goes()
        assert play.counters["errors_passed"] == 1
        assert play.counters["errors_sent"] == play.counters["sessions_connected"] == 0


@pytest.mark.parametrize("version", [b"1.3", b"", b"one", b"2.0"], ids=repr)
def test_a_broker_that_settles_on_an_unknown_version(version: bytes) -> None:
    """Nothing could be bridged to it: the session ends. An empty version counts as none, which is 1.0."""
    with Playbook(hello=SAY_HELLO[b"1.2"]) as play:
        play.broker_is_asked()
        play.broker_says(b"CONNECTED\nversion:" + version + b"\n\n\0")
        if version:
            play.client_gets_error(b"the broker sent what is not STOMP")
        else:
            assert play.client_reads().startswith(b"CONNECTED\n")


@pytest.mark.parametrize("accepted", [False, True])
def test_a_broker_that_does_not_answer_in_time(accepted: bool) -> None:
    """Connection and CONNECTED have one time together; then the broker counts as not there."""
    with Playbook(listener(upstream(connect_timeout=4.0)), hello=SAY_HELLO[b"1.2"]) as play:
        if accepted:
            play.time_passes(2)
            play.broker_is_asked()
            play.time_passes(1.9)
        else:
            play.time_passes(3.9)
        play.client_gets(b"")
        play.time_passes(0.2)
        play.client_gets_error(b"broker not available")
        play.broker_is_closed()
        assert play.wake == inf


ESCAPES = [
    (GENERIC, None, b"passcode:pa:ss\\word\n"),
    (RABBITMQ, None, b"passcode:pa\\css\\\\word\n"),
    (ACTIVEMQ, None, b"passcode:pa\\css\\\\word\n"),
    (GENERIC, True, b"passcode:pa\\css\\\\word\n"),
    (RABBITMQ, False, b"passcode:pa:ss\\word\n"),
]


@pytest.mark.parametrize(("profile", "escape", "line"), ESCAPES)
def test_our_own_credentials_are_spelled(profile: object, escape: bool | None, line: bytes) -> None:
    """RabbitMQ and ActiveMQ unescape CONNECT against the specification; `connect_escape` overrides the profile."""
    own = upstream(credentials=Credentials(b"u", b"pa:ss\\word"), profile=profile, connect_escape=escape)
    with Playbook(listener(own), hello=SAY_HELLO[b"1.2"]) as play:
        assert b"\n" + line in play.broker_is_asked()


def test_secrets_stay_out_of_notes_and_representations() -> None:
    """Neither a client's passcode nor ours is in a note, nor in the repr of anything that holds it."""
    own = upstream(credentials=Credentials(b"relay", b"OURSECRET"))
    with Playbook(listener(own)) as play:
        play.client_says(b"CONNECT\nlogin:u\npasscode:THEIRSECRET\nx-token:TOKEN\n\n\0")
        play.broker_is_asked()
        play.broker_said(SAY_WELCOME[b"1.0"])
        play.client_errs(b"CONNECT\npasscode:THEIRSECRET\n\n\0", b"CONNECT is not allowed here")
        shown = repr([play.notes, own, play.relay.listener, play.relay.session, play.relay.client])
        assert play.notes
        for secret in ("OURSECRET", "THEIRSECRET", "TOKEN"):
            assert secret not in shown


@in_cuts_of_halves
def test_too_much_before_connect(cut: Cut) -> None:
    """A head that never ends is refused at a limit of its own, long before the body's."""
    with Playbook(listener(before_connect=1000), cut=cut, hello=b"CONNECT\n" + b"foo:bar\n" * 100) as play:
        play.client_gets(b"")
        play.client_errs(b"foo:bar\n" * 27, b"too much before CONNECT")
        assert not play.brokers


HELLO = b"CONNECT\nlogin:u\npasscode:hunter2\ntoken:t0ken\naccept-version:1.0\n\n\0"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"ERROR\nmessage:Bad CONNECT\n\nAccess refused for 'u'\nmore\0", "Bad CONNECT: Access refused for 'u'"),
        (b"ERROR\nmessage:No such user\n\njava.lang.SecurityException: No such user\n\tat x\0", "No such user"),
        (b"ERROR\nmessage:Broker\\c a - c1 is connected\n\n\0", "Broker: a - c1 is connected"),
        (b"ERROR\n\n\nno\n\0", "no"),
        (b"ERROR\n\n\0", ""),
        (b"ERROR\nmessage:hunter2 and t0ken\n\nr3lay is wrong\0", "*** and ***: *** is wrong"),
        ("ERROR\nmessage:\x1b[31m\u202ea\n\n\0".encode(), "\\x1b[31m\\u202ea"),
        (b"ERROR\nmessage:%b\n\n\0" % (b"x" * 1000), "x" * 200),
    ],
)  # fmt: skip
def test_what_a_refusal_says(said: bytes, words: str) -> None:
    """The broker's words are in the log, on one line: shortened, and without what is secret in CONNECT."""
    own = upstream(credentials=Credentials(b"relay", b"r3lay"))
    with Playbook(listener(own)) as play:
        play.client_says(HELLO)
        play.broker_is_asked()
        play.broker_says(said)
        play.client_gets(said)
        assert play.noted(Event.REFUSED) == f"broker {URI} answered CONNECT with ERROR{words and ': '}{words}"
