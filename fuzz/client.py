"""What a client says next, by what it was told."""

from collections import Counter
from typing import Final, NamedTuple

from fuzz.words import Pairs, Words
from stomprelay.wire.frame import Frame

QUEUES: Final = (b"/queue/a", b"/queue/b", b"/topic/t", b"/queue/there.1")
"""The last one goes to an upstream of its own, where there are routes."""

NAMES: Final = (b"1", b"2", b"s-3")
LOGINS: Final = (b"guest", b"a\\qb", b"shutdown", b"unavailable", b"too many", b"time-out")

COPY: Final = b"copy"
"""A header of MESSAGEs of scripted brokers, and of the ACKs for them: which one it is."""


class Delivery(NamedTuple):
    """A MESSAGE as a client has to name it, raw; `copy` where its broker said which it is, and as long as nothing else
    that the client said may be for it.
    """

    subscription: bytes | None
    message_id: bytes | None
    ack: bytes | None
    copy: bytes | None

    @property
    def name(self) -> bytes | None:
        """What an ACK names it by."""
        return self.message_id if self.ack is None else self.ack


class Client:
    """Draws the frames of one client of a version. What it was delivered stands in `deliveries`, the newest last."""

    def __init__(self, version: bytes, words: Words) -> None:
        self.version = version
        self.deliveries: list[Delivery] = []
        self.subscriptions: list[bytes] = []
        self.transactions: list[bytes] = []
        self.said: Counter[bytes] = Counter()
        self.left = False
        self._words = words
        self._number = 0
        self._without: set[bytes] = set()  # ids of subscriptions that wanted no ACKs
        self._again: set[bytes | None] = set()

    def connect(self) -> bytes:
        """Return a CONNECT, or what is said in its place."""
        words, random = self._words, self._words.random
        if random() < words.wild / 4:
            return (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01", b"\n\n", b"SEND\n\n\0", b"", b"\0")[
                int(random() * 6)
            ]
        headers: Pairs = []
        if self.version != b"1.0" or random() < 0.3:
            accepted = {b"1.0": b"1.0", b"1.1": b"1.0,1.1", b"1.2": b"1.1,1.2"}[self.version]
            headers += [(b"accept-version", self.version if random() < 0.7 else accepted), (b"host", b"/")]
        if random() < 0.6:
            login = LOGINS[int(random() * len(LOGINS))] if words.wild else b"guest"
            headers += [(b"login", login), (b"passcode", words.one_of(b"guest"))]
        if random() < 0.5:
            beats = (
                words.one_of(b"0,0", b"0,1000", b"1000,1000", b"100,0", b"1,1") if words.wild else b"0,1000"
            )
            headers.append((b"heart-beat", beats))
        if random() < 0.05:
            headers.append((b"receipt", words.one_of(b"c")))
        return words.frame(b"STOMP" if random() < 0.1 else b"CONNECT", headers)

    def delivered(self, frame: Frame) -> None:
        """A MESSAGE came."""
        known = self.deliveries
        id = frame.raw(b"subscription") or b""
        # What came for a subscription that is over is nobody's; so may be what comes for one with the id of such a one
        # that wanted no ACKs.
        copy = frame.raw(COPY) if id in self.subscriptions and id not in self._without else None
        known.append(Delivery(id or None, frame.raw(b"message-id"), frame.raw(b"ack"), copy))
        if known[-1].name in self._again:
            self._doubt(known[-1].name)
        if len(known) > 40:
            del known[:20]

    def _doubt(self, name: bytes | None) -> None:
        """An ACK of this name is for something that was settled before. Until it has arrived the name may be given
        again, to another message: that one is settled then, and with it what came before on its subscription.
        """
        self._again.add(name)
        meant = {each.subscription for each in self.deliveries if each.name == name}
        for number, each in enumerate(self.deliveries):
            if each.subscription in meant:
                self.deliveries[number] = each._replace(copy=None)

    def speech(self) -> bytes:
        """Return what it says in one breath: a frame or several."""
        random = self._words.random
        count = 1 if random() < 0.4 else 1 + int(random() * 6)
        dice = random()
        if dice < 0.02:
            count = 40 if dice > 0.001 else 1000  # more than is done in one turn
        return b"".join([self._frame() for _ in range(count)])

    def _frame(self) -> bytes:
        words, random = self._words, self._words.random
        if self.left:
            return b"\n"
        dice = random()
        if dice < 0.40:
            return self._send()
        if dice < 0.50:
            return self._subscribe()
        if dice < 0.54:
            return self._unsubscribe()
        if dice < 0.76:
            return self._settle() if self.deliveries or words.wild else self._send()
        if dice < 0.90:
            return self._transact()
        if dice < 0.91:
            self.left = True
            return words.frame(b"DISCONNECT", self._asking([]))
        if dice < 0.93 and words.wild:
            return words.remembered(True)
        return b"\n" if self.version != b"1.0" and random() < 0.5 else self._send()

    def _asking(self, headers: Pairs, share: float = 0.5) -> Pairs:
        random = self._words.random
        if random() < share:
            self._number += 1
            headers.append((b"receipt", self._words.one_of(b"r%d" % self._number)))
        return headers

    def _inside(self, headers: Pairs, share: float = 0.3) -> Pairs:
        words = self._words
        if self.transactions and words.random() < share:
            headers.append((b"transaction", self.transactions[int(words.random() * len(self.transactions))]))
        elif words.random() < words.wild / 10:
            headers.append((b"transaction", words.one_of(b"t9")))
        return headers

    def _send(self) -> bytes:
        words = self._words
        headers = [(b"destination", words.one_of(*QUEUES))]
        return words.frame(b"SEND", self._inside(self._asking(headers)), words.body())

    def _subscribe(self) -> bytes:
        words, random = self._words, self._words.random
        headers: Pairs = [(b"destination", words.one_of(*QUEUES))]
        name = words.one_of(*NAMES)
        if self.version != b"1.0" or random() < 0.5:
            headers.append((b"id", name))
        if random() < 0.8:
            headers.append((b"ack", words.right(b"auto", b"client", b"client", b"client-individual")))
        if random() < 0.1:
            headers.append((b"selector", words.one_of(b"a = 1", b"shutdown ==== 1")))
        if name in self.subscriptions and not words.wild:
            return self._send()  # it is in use
        self.subscriptions.append(name)
        if dict(headers).get(b"ack", b"auto") == b"auto":
            self._without.add(name)
        return words.frame(b"SUBSCRIBE", self._asking(headers, 0.3))

    def _unsubscribe(self) -> bytes:
        words, random = self._words, self._words.random
        known = self.subscriptions
        headers: Pairs = []
        if known and (self.version != b"1.0" or random() < 0.5):
            headers.append((b"id", known.pop(int(random() * len(known)))))
        if not headers or random() < 0.1:
            headers.append((b"destination", words.one_of(*QUEUES)))
        # What came for a subscription that is over is nobody's any more.
        self.deliveries = [each._replace(copy=None) for each in self.deliveries]
        return words.frame(b"UNSUBSCRIBE", self._asking(headers, 0.3))

    def _settle(self) -> bytes:
        words, random, known = self._words, self._words.random, self.deliveries
        command = b"ACK" if random() < 0.8 or self.version == b"1.0" else b"NACK"
        if not known or random() < words.wild:
            headers = [(b"id", words.one_of(*NAMES)), (b"message-id", words.one_of(*NAMES))]
            return words.frame(command, self._inside(self._asking(headers, 0.3)))
        at = int(random() * len(known))
        delivery = known[at]
        again = delivery._replace(copy=None)  # what is settled twice may be taken for another one
        known[at : at + 1] = [again] if random() < 0.2 else []
        for number, each in enumerate(known[:at]):
            if each.subscription == delivery.subscription:
                known[number] = each._replace(copy=None)  # it may have been settled with this one
        if delivery.copy is None:
            self._doubt(delivery.name)
        headers = []
        if self.version == b"1.2":
            headers.append((b"id", delivery.ack or b""))
        else:
            headers.append((b"message-id", delivery.message_id or b""))
            if delivery.subscription is not None and (self.version == b"1.1" or random() < 0.5):
                headers.append((b"subscription", delivery.subscription))
        if delivery.copy is not None and not words.wild:
            headers.append((COPY, delivery.copy))
        return words.frame(command, self._inside(self._asking(headers, 0.3)))

    def _transact(self) -> bytes:
        words, random, known = self._words, self._words.random, self.transactions
        if not known or random() < 0.4:
            self._number += 1
            name = words.one_of(b"t%d" % self._number, b"t")
            if name in known and not words.wild:
                return self._send()
            known.append(name)
            return words.frame(b"BEGIN", self._asking([(b"transaction", name)], 0.3))
        name = known.pop(int(random() * len(known)))
        command = b"COMMIT" if random() < 0.6 else b"ABORT"
        return words.frame(command, self._asking([(b"transaction", name)]))
