"""A listener that asks who comes: the client waits until that is known, and all that can happen meanwhile."""

from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from stomprelay.relay.client.opening import REFUSAL
from stomprelay.relay.client.shutdown import ECHO
from stomprelay.relay.model.rules import ANYBODY, AccessRule, AccessRules, Claim, Ground, Identity
from stomprelay.relay.relay import JUDGED
from stomprelay.session.effects import Event, How
from stomprelay.session.handshake import Credentials
from tests.playbook import Cut, Playbook, in_all_cuts, listener, upstream
from tests.relay.frames import GOODBYE, send
from tests.relay.several import fan_out

HELLO = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:alice\npasscode:secret\n\n\0"
ALICE = Identity("alice", frozenset({"staff"}))


def asked(over: Any = None, *, cut: Cut = Cut.WHOLE, behind: bytes = b"", **settings: Any) -> Playbook:
    """A client that sent CONNECT, and perhaps more `behind` it, to a listener that asks who it is."""
    play = Playbook(listener(over, auth="people", **settings), cut=cut)
    play.client_says(HELLO + behind)
    return play


def welcomed(play: Playbook) -> None:
    """The broker takes the client in."""
    play.broker_welcomes()
    assert play.client_reads().startswith(b"CONNECTED\n")


@in_all_cuts
def test_a_client_that_is_known(cut: Cut) -> None:
    """No broker is asked before it is known who comes; then all goes on as ever, also what was behind CONNECT."""
    with asked(cut=cut, behind=send(b"early")) as play:
        assert play.claims == [Claim(b"alice", b"secret")]
        assert play.brokers == []
        assert play.relay.identity is ANYBODY
        play.client_is(ALICE)
        assert play.relay.identity is ALICE
        assert play.relay.login == b"alice"
        welcomed(play)
        play.broker_gets(send(b"early"))
        play.client_tells_broker(send(b"x"))


@pytest.mark.parametrize("reason", [each.value for each in Ground])
@pytest.mark.parametrize("took", [0.0, 0.4, REFUSAL])
def test_every_refusal_is_alike(reason: str, took: float) -> None:
    """The same ERROR at the same time, whatever was wrong and however long it took to find out."""
    with asked() as play:
        play.time_passes(took)
        play.client_is_unknown(reason)
        play.time_passes(REFUSAL - took - 0.001 if took < REFUSAL else 0.0)
        if took < REFUSAL:
            play.client_gets(b"")
        play.time_passes(0.001)
        play.client_gets(
            b"ERROR\nmessage:access refused\nversion:1.0,1.1,1.2\ncontent-type:text/plain\n"
            b"content-length:37\n\nthe relay does not let this client in\0"
        )
        play.client_is_closed(How.LINGER)
        assert play.brokers == []
        assert play.noted(Event.ERROR) == f"access refused ({reason}): another passcode"
        assert play.facts(Event.ERROR) == [{"side": "client", "message": "access refused", "reason": reason}]
        name = "logins_unchecked" if reason == "unchecked" else "logins_failed"
        assert (play.counters[name], play.counters["errors_sent"]) == (1, 1)
        assert play.counters["sessions_connected"] == 0
        assert play.relay.over


# What the client does meanwhile


def test_a_client_that_goes_and_may_not_send() -> None:
    """Nothing of it reaches anybody, and nobody is told."""
    with asked(behind=send(b"x")) as play:
        play.client_goes("reset")
        play.client_is_unknown()
        play.client_is_closed(How.FLUSH)
        assert play.relay.over
        assert play.brokers == []
        assert (play.counters["logins_failed"], play.counters["clients_vanished"]) == (1, 1)
        assert play.wake == inf


# What the relay does meanwhile


def test_a_client_that_half_closes() -> None:
    """It has said all that it will say, and gets its answers."""
    with asked(behind=send(b"x")) as play:
        play.part = False
        play.client_half_closes()
        play.client_is(ALICE)
        play.client_gets_exactly(b"\n")
        welcomed(play)
        play.broker_gets(send(b"x"))
        play.time_passes(ECHO)
        play.broker_gets(GOODBYE)
        play.broker_goes()


@pytest.mark.parametrize("refused", [True, False])
@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (Playbook.relay_begins_to_stop, b"the relay is stopping"),
        (Playbook.relay_stops, b"the relay is stopping"),
        (Playbook.operator_kills, b"the session was ended"),
    ],
)
def test_the_relay_ends_it(ends: Callable[[Playbook], None], message: bytes, refused: bool) -> None:
    """It waits for nothing then."""
    with asked() as play:
        if refused:
            play.client_is_unknown()
        ends(play)
        play.client_gets_error(message)
        play.client_is(ALICE)
        play.time_passes(60)
        assert play.relay.over
        assert play.brokers == []


def test_it_is_found_out_twice() -> None:
    """Only the first answer counts."""
    with asked() as play:
        play.client_is(ALICE)
        play.client_is(Identity("mallory"))
        play.client_is_unknown()
        assert play.relay.identity is ALICE
        welcomed(play)


@pytest.mark.parametrize(
    ("identity", "own", "told"),
    [
        (ALICE, None, b"login:alice\npasscode:secret\n"),
        (ALICE, Credentials(b"relay", b"pw"), b"login:relay\npasscode:pw\n"),
        (Identity("a", credentials=Credentials(b"app", b"x")), None, b"login:app\npasscode:x\n"),
        (
            Identity("a", credentials=Credentials(b"app", b"x")),
            Credentials(b"relay", b"pw"),
            b"login:app\npasscode:x\n",
        ),
        (Identity("a", credentials=Credentials(b"a:b")), None, b"login:a:b\n"),
    ],
)
def test_what_brokers_are_told(identity: Identity, own: Credentials | None, told: bytes) -> None:
    """What the identity has for them; else what the upstream has; else the client's own."""
    with asked(upstream(credentials=own)) as play:
        play.client_is(identity)
        connect = play.broker_is_asked()
        assert told in connect
        assert (b"secret" in connect) is (b"secret" in told)
        assert (b"passcode" in connect) is (b"passcode" in told)


# Another token


RENEW = b"/relay/token"
SHOWN = send(b"", RENEW, passcode="newer", receipt="r")


def renewing(cut: Cut = Cut.WHOLE) -> Playbook:
    """A session whose client may be there for thirty seconds, and may show a newer token."""
    play = asked(cut=cut, renew=RENEW)
    play.client_is(Identity("alice", until=play.now + 30))
    welcomed(play)
    return play


@in_all_cuts
def test_a_newer_token(cut: Cut) -> None:
    """It is for no broker; the client has its RECEIPT when it was found good, and may stay until it expires."""
    with renewing(cut) as play:
        play.client_tells_broker(send(b"1") + SHOWN + send(b"2"), send(b"1") + send(b"2"))
        assert play.claims[1:] == [Claim(None, b"newer")]
        play.client_gets(b"")
        play.client_is(Identity("alice", until=play.now + 60))
        play.client_gets(b"RECEIPT\nreceipt-id:r\n\n\0")
        assert play.wake == play.now + 60
        play.time_passes(59)
        play.client_tells_broker(send(b"3"))
        play.time_passes(2)
        play.client_gets_error(b"the token has expired")
        play.broker_is_closed()


@pytest.mark.parametrize("ground", ["token", "unchecked"])
def test_a_newer_token_that_is_refused(ground: str) -> None:
    """There is no RECEIPT for it, and the session goes on with the one that it has, until that expires."""
    with renewing() as play:
        play.client_says(SHOWN)
        play.client_is_unknown(ground, "it has expired")
        assert "the one before counts until it expires" in play.noted(Event.ERROR)
        assert play.counters["logins_failed" if ground == "token" else "logins_unchecked"] == 1
        play.client_gets(b"")
        play.client_says(SHOWN)
        play.client_is(Identity("alice", until=play.now + 20))
        play.client_gets(b"RECEIPT\nreceipt-id:r\n\n\0")
        play.time_passes(19)
        play.both_stay()
        play.time_passes(2)
        play.client_gets_error(b"the token has expired")


def test_a_newer_token_of_somebody_else() -> None:
    """Nobody becomes another user."""
    with renewing() as play:
        play.client_says(SHOWN)
        play.client_is(Identity("mallory", until=play.now + 60))
        assert "it is of another user" in play.noted(Event.ERROR)
        assert play.relay.identity.user == "alice"
        play.time_passes(31)
        play.client_gets_error(b"the token has expired")


def test_a_newer_token_with_several_brokers() -> None:
    """None of them is sent it, and rules do not forbid it."""
    with asked(fan_out(), renew=RENEW, rules=AccessRules((), allow=False)) as play:
        play.client_is(Identity("alice", until=play.now + 30))
        for at in "ab":
            play.broker_welcomes(at=at)
        assert play.client_reads().startswith(b"CONNECTED\n")
        play.client_says(SHOWN)
        play.client_is(Identity("alice", until=play.now + 60))
        play.client_gets(b"RECEIPT\nreceipt-id:r\n\n\0")
        assert [peer.written for peer in play.brokers] == [b"", b""]


def test_a_newer_token_of_the_same_groups() -> None:
    """It costs nothing for each subscription: none of them is judged again."""
    staff = AccessRule(1, allow=True, send=("/queue/*",), subscribe=("/queue/*",), groups=("staff",))
    play = asked(renew=RENEW, rules=AccessRules((staff,), allow=False))
    with play:
        play.client_is(Identity("alice", frozenset({"staff"}), until=play.now + 30))
        welcomed(play)
        for number in range(2 * JUDGED):
            play.client_says(b"SUBSCRIBE\nid:%d\ndestination:/queue/%d\n\n\0" % (number, number))
        play.broker_reads()
        play.busy = True
        said = send(b"x", b"/queue/a")
        for groups in ({"staff"}, {"staff", "more"}):
            play.client_says(SHOWN)
            play.client_is(Identity("alice", frozenset(groups), until=play.now + 60))
            play.client_gets(b"RECEIPT\nreceipt-id:r\n\n\0")
            play.client_tells_broker(said, said if "more" not in groups else b"")
        assert play.turn_comes() is play.client.leg
        play.broker_gets(said)
