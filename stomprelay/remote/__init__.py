"""Requests to the admin endpoint of a running relay: its brokers, to pause one and to resume it; who is connected, what
passes, to end a session, and to let no new client in; to read its configuration anew.

`commands` what is done for a person who asks; `tail` the same for frames as they pass; `client` what can be asked
for; `connecting` how, and with which token or certificate; `tables` what is shown.
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
