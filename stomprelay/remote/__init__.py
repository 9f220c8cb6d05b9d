"""Requests to the admin endpoint of a running relay: list, pause and resume its brokers; list and end its sessions;
show frames as they pass; refuse new clients; read its configuration again.

`commands` the commands of the command line; `tail` the one that shows frames; `client` the requests; `connecting` the
connection, with token or certificate; `tables` the output.
"""

from stomprelay.journal.tail import LONGEST_BODY
from stomprelay.remote.client import AdminClient, BrokerStatus
from stomprelay.remote.commands import (
    ALL,
    brokers,
    cancel_drain,
    drain,
    kill,
    pause,
    reload,
    resume,
    sessions,
)
from stomprelay.remote.connecting import DEFAULT, AdminError, Credentials
from stomprelay.remote.tables import FILTERS, ORDERS, RATES
from stomprelay.remote.tail import tail, watch

__all__ = [
    "ALL", "DEFAULT", "FILTERS", "LONGEST_BODY", "ORDERS", "RATES", "AdminClient", "AdminError", "BrokerStatus",
    "Credentials", "brokers", "cancel_drain", "drain", "kill", "pause", "reload", "resume", "sessions", "tail", "watch",
]  # fmt: skip
