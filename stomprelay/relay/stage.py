"""How far a session is with one group of brokers."""

from enum import Enum


class Stage(Enum):
    """The stages of a `Branch`. From UP on it is SEARCHING again whenever it lost or left its broker."""

    SEARCHING = "searching"
    """It waits for the time of the next attempt."""
    BINDING = "binding"
    """A broker was asked for its connection, or for CONNECTED."""
    UP = "up"
    """Frames flow."""
    PARTING = "parting"
    """The broker was told DISCONNECT because the session moves: what it still sends is the client's."""
    ENDED = "ended"
    """No broker could be had, or the session is over."""
