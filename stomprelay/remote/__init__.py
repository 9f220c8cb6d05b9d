"""Requests to the admin endpoint of a running relay: list, pause and resume its brokers; list and end its sessions;
show frames as they pass; refuse new clients; read its configuration again.

`commands` the commands of the command line, and their output; `client` the connection, and the requests.
"""

from stomprelay.journal.tail import LONGEST_BODY
from stomprelay.remote.client import DEFAULT, RATES, AdminClient, AdminCredentials, AdminError, BrokerStatus
from stomprelay.remote.commands import (
    ALL,
    FILTERS,
    ORDERS,
    brokers,
    cancel_drain,
    drain,
    kill,
    pause,
    reload,
    resume,
    sessions,
    tail,
    watch,
)  # fmt: skip

__all__ = [
    "ALL",
    "DEFAULT",
    "FILTERS",
    "LONGEST_BODY",
    "ORDERS",
    "RATES",
    "AdminClient",
    "AdminCredentials",
    "AdminError",
    "BrokerStatus",
    "brokers",
    "cancel_drain",
    "drain",
    "kill",
    "pause",
    "reload",
    "resume",
    "sessions",
    "tail",
    "watch", ]  # fmt: skip
