"""Every counter counts something, and says what."""

import re
from collections.abc import Callable

import pytest

from stomprelay.relay import inputs
from stomprelay.relay.model.counters import COUNTERS, Counters
from stomprelay.relay.model.rules import AccessRules
from stomprelay.relay.notes import CROWDED
from stomprelay.session.heartbeat import Terms
from tests.playbook import SAY_HELLO, SAY_WELCOME, Playbook, joined, listener
from tests.relay.failing import STOPPING, asked, asked_to_leave, found, movable, started
from tests.relay.several import fanned, send
from tests.relay.test_poison import POISON, Picky


def test_all_counters_start_at_nothing() -> None:
    """A page that shows the counters shows every name from the start."""
    assert list(Counters()) == list(COUNTERS)
    assert set(Counters().values()) == {0}


def test_every_counter_says_what_it_counts() -> None:
    """Names are plain words, meanings one line."""
    for name, meaning in COUNTERS.items():
        assert re.fullmatch(r"[a-z_]+", name)
        assert meaning
        assert "\n" not in meaning


def _a_session() -> Playbook:
    play = Playbook()
    play.client_says(SAY_HELLO[b"1.2"])
    play.broker_accepts()
    play.broker_says(SAY_WELCOME[b"1.2"])
    play.client_says(b"SEND\ndestination:/queue/a\nack:forged\nreceipt:1\n\n\0")
    play.broker_says(b"ERROR\nmessage:no\n\n\0")
    return play


def _a_lost_broker() -> Playbook:
    play = joined(b"1.2", b"1.2")
    play.client_says(b"SEND\ndestination:/queue/a\nreceipt:1\n\n\0")
    play.broker_goes()
    return play


def _a_refusal() -> Playbook:
    play = Playbook()
    play.client_says(SAY_HELLO[b"1.2"])
    play.broker_refuses()
    return play


def _no_descriptors() -> Playbook:
    play = Playbook()
    play.client_says(SAY_HELLO[b"1.2"])
    play._perform(
        play.relay.handle(
            inputs.NotConnected(play.at(None).leg, "Too many open files", tried=False), play.now
        )
    )
    return play


def _a_lost_client() -> Playbook:
    play = joined(b"1.2", b"1.2")
    play.client_goes()
    return play


def _a_silent_client() -> Playbook:
    play = joined(b"1.2", b"1.2", hello=b"heart-beat:1000,1000\n", heart_beat=Terms(1000, 1000))
    play.time_passes(3)
    return play


def _a_stranger() -> Playbook:
    play = Playbook()
    play.client_says(b"GET / HTTP/1.1\r\n\r\n")
    return play


def _what_no_rule_allows() -> Playbook:
    play = joined(b"1.2", b"1.2", rules=AccessRules((), allow=False))
    play.client_says(b"SEND\ndestination:/queue/a\n\n\0")
    return play


def _losses() -> Playbook:
    play = joined(b"1.2", b"1.0")
    play.client_says(b"SEND\ndestination:/queue/a\nfoo:a\\nb\nf\\coo:x\n\n\0")
    return play


def _a_selector() -> Playbook:
    play = joined(b"1.2", b"1.2", product="rabbitmq")
    play.client_says(b"SUBSCRIBE\nid:0\ndestination:/queue/a\nselector:x\n\n\0")
    return play


def _a_failover() -> Playbook:
    play = started(confirm=True)
    play.client_says(b"SEND\ndestination:/queue/a\n\nx\0")
    play.broker_goes()
    found(play)
    return play


def _a_move() -> Playbook:
    play = started()
    asked_to_leave(play)
    play.broker_says(b"RECEIPT\nreceipt-id:relay-session-receipt-1\n\n\0")
    found(play)
    return play


def _the_last_broker() -> Playbook:
    play = started(options={"attempts": 0})
    play.broker_goes()
    return play


def _a_late_ack() -> Playbook:
    play = started()
    play.client_says(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0")
    play.broker_says(b"MESSAGE\nsubscription:1\nmessage-id:m\nack:k\ndestination:/queue/a\n\nx\0")
    play.broker_goes()
    found(play)
    play.client_says(b"ACK\nid:k\n\n\0")
    return play


def _unconfirmed() -> Playbook:
    play = started()
    play.client_says(b"SEND\ndestination:/queue/a\n\nx\0")
    play.broker_goes()
    found(play)
    return play


def _a_broker_that_shuts_down() -> Playbook:
    play = started()
    play.broker_says(STOPPING)
    return play


def _a_connect_that_brokers_close_for() -> Playbook:
    over = movable()
    for broker in over.brokers:
        broker.health.answered()
    play = Playbook(listener(over))
    play.client_says(SAY_HELLO[b"1.2"])
    for broker in over.brokers:
        asked(play)
        play.broker_accepts()
        broker.health.answered()
        play.broker_goes()
    return play


def _a_full_queue() -> Playbook:
    play = fanned(resend_buffer=100)
    play.broker_is_blocked(at="b")
    play.client_says(send(b"x" * 100) + send(b"y"))
    return play


def _an_error_of_one() -> Playbook:
    play = fanned()
    play.client_says(send(receipt="r"))
    play.broker_says(b"ERROR\nmessage:no\nreceipt-id:r\n\n\0", at="b")
    return play


def _nobody_takes_what_a_client_left() -> Playbook:
    play = started(disconnect_timeout=5.0)
    play.broker_goes()
    play.client_says(b"SEND\ndestination:/queue/a\n\nx\0")
    play.client_goes()
    play.time_passes(5)
    return play


def _a_bug() -> Playbook:
    play = started()
    play._perform(play.relay.failed(ValueError("nobody thought of that")))
    return play


def _a_frame_that_costs_the_connection() -> Playbook:
    play = started(product="activemq")
    picky = Picky(play, "activemq")
    play.client_says(POISON)
    picky.goes_on()
    return play


SCENES: dict[Callable[[], Playbook], set[str]] = {
    _a_session: {
        "sessions_opened",
        "sessions_connected",
        "client_bytes",
        "broker_bytes",
        "client_frames",
        "broker_frames",
        "errors_passed",
        "loss_reserved",
    },
    _a_lost_broker: {"brokers_lost", "possibly_lost", "errors_sent"},
    _a_refusal: {"brokers_refused", "errors_sent"},
    _no_descriptors: {"connects_prevented", "errors_sent"},
    _a_lost_client: {"clients_vanished"},
    _a_silent_client: {"beats_missed", "errors_sent"},
    _a_stranger: {"foreign"},
    _what_no_rule_allows: {"frames_denied", "errors_sent"},
    _losses: {"loss_value", "loss_name"},
    _a_selector: {"selector_ignored"},
    _a_failover: {"brokers_lost", "failovers", "frames_resent"},
    _a_move: {"brokers_moved"},
    _the_last_broker: {"brokers_lost", "sessions_given_up", "errors_sent"},
    _a_late_ack: {"brokers_lost", "failovers", "acks_stale"},
    _unconfirmed: {"brokers_lost", "failovers", "possibly_lost"},
    _a_broker_that_shuts_down: {"errors_withheld"},
    _a_connect_that_brokers_close_for: {"brokers_refused", "connects_rejected", "errors_sent"},
    _a_full_queue: {"fanout_overflowed"},
    _an_error_of_one: {"fanout_errors"},
    _nobody_takes_what_a_client_left: {
        "brokers_lost",
        "clients_undelivered",
        "clients_vanished",
        "possibly_lost",
    },
    _a_bug: {"errors_sent", "faults"},
    _a_frame_that_costs_the_connection: {
        "brokers_lost",
        "errors_sent",
        "failovers",
        "frames_resent",
        "poison_refused",
    },
}


def _not_let_in(reason: str) -> Playbook:
    play = Playbook(listener(auth="people"))
    play.client_says(SAY_HELLO[b"1.2"])
    play.client_is_unknown(reason)
    play.time_passes(1)
    return play


def _short_of_memory() -> Playbook:
    play = joined(b"1.2", b"1.2")
    play._perform(play.relay.handle(inputs.Killed(CROWDED), play.now))
    return play


def _a_wrong_passcode() -> Playbook:
    return _not_let_in("passcode")


def _nobody_to_ask() -> Playbook:
    return _not_let_in("unchecked")


SCENES |= {
    _short_of_memory: {"sessions_crowded", "errors_sent"},
    _a_wrong_passcode: {"logins_failed", "errors_sent"},
    _nobody_to_ask: {"logins_unchecked", "errors_sent"},
}

ORDINARY = {
    "sessions_opened",
    "sessions_connected",
    "client_bytes",
    "broker_bytes",
    "client_frames",
    "broker_frames",
}


@pytest.mark.parametrize("scene", list(SCENES), ids=lambda scene: scene.__name__)
def test_what_a_scene_counts(scene: Callable[[], Playbook]) -> None:
    """Beside the ordinary traffic, a scene counts exactly what it is about."""
    counted = {name for name, count in scene().counters.items() if count}
    assert counted - ORDINARY == SCENES[scene] - ORDINARY
    assert counted <= SCENES[scene] | ORDINARY


def test_every_counter_is_counted_somewhere() -> None:
    """No counter stands at nothing for ever. Clients that are turned away come to no relay (tests/service)."""
    assert set().union({"clients_refused"}, *SCENES.values()) == set(COUNTERS)
