"""What passes between the thread of a pump and whoever uses it."""

import threading
from collections import deque
from typing import Final

ROOM: Final = 8 * 1024 * 1024
"""Octets that may wait in either direction."""


class Mailbox:
    """Octets of a client on their way in, and octets for it on their way out. Once `close` was said nothing goes in."""

    def __init__(self) -> None:
        self.closed = False
        self._inward: deque[bytes] = deque()
        self._inward_size = 0
        self._outward: list[bytes] = []
        self._outward_size = 0
        lock = threading.Lock()
        self._room = threading.Condition(lock)
        self._news = threading.Condition(lock)

    def feed(self, data: bytes) -> None:
        """From the client. Waits while there is no room."""
        with self._room:
            while self._inward_size >= ROOM and not self.closed:
                self._room.wait()
            if data and not self.closed:
                self._inward.append(data)
                self._inward_size += len(data)

    def heard(self) -> bytes:
        """The oldest that the client said; nothing when there is nothing."""
        with self._room:
            if not self._inward:
                return b""
            data = self._inward.popleft()
            self._inward_size -= len(data)
            self._room.notify_all()
            return data

    def tell(self, data: bytes) -> bool:
        """For the client. Answers whether there is no more room."""
        with self._news:
            self._outward.append(data)
            self._outward_size += len(data)
            self._news.notify_all()
            return self._outward_size >= ROOM

    def take(self, timeout: float) -> tuple[list[bytes], bool]:
        """All that there is for the client, after waiting so long for something; and whether there was no room."""
        with self._news:
            if not self._outward and not self.closed:
                self._news.wait(timeout)
            taken, self._outward = self._outward, []
            full, self._outward_size = self._outward_size >= ROOM, 0
            return taken, full

    def close(self) -> None:
        """Nothing more goes in; what there is for the client can still be taken."""
        with self._room:
            self.closed = True
            self._inward.clear()
            self._inward_size = 0
            self._room.notify_all()
            self._news.notify_all()
