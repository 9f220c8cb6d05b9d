"""Requests to the admin endpoint of a running relay: its brokers, to pause one and to resume it; who is connected, to
end a session, and to let no new client in.

`commands` what is done for a person who asks; `client` what can be asked for; `connecting` how, and with which token
or certificate; `tables` what is shown.
"""

from stomprelay.remote.client import AdminClient, BrokerStatus
from stomprelay.remote.commands import ALL, brokers, cancel_drain, drain, kill, pause, resume, sessions
from stomprelay.remote.connecting import DEFAULT, AdminError, Credentials
from stomprelay.remote.tables import FILTERS, ORDERS, RATES

__all__ = [
    "ALL", "DEFAULT", "FILTERS", "ORDERS", "RATES", "AdminClient", "AdminError", "BrokerStatus", "Credentials",
    "brokers", "cancel_drain", "drain", "kill", "pause", "resume", "sessions",
]  # fmt: skip
