"""What clients say when they connect, and what becomes of it at the brokers of another product."""

from typing import Final

from stomprelay.relay.model.features import ACTIVEMQ, RABBITMQ
from stomprelay.relay.model.usage import Finding, Verdict

HOSTS: Final = "virtual-hosts"
SHARED: Final = "shared-client-ids"
_SHOWN: Final = 3


class Connects:
    """Judges CONNECTs. `clients`: the product for which they were written; `product`: that of the new brokers. `host`:
    the configuration says the virtual host there.
    """

    def __init__(self, clients: str, product: str, *, host: bool) -> None:
        self._clients = clients
        self._product = product
        self._host = host
        self._hosts: dict[bytes, None] = {}
        self._open: dict[str, bytes] = {}
        self._latest: dict[bytes, str] = {}

    def opened(self, session: str, host: bytes, client_id: bytes) -> list[Finding]:
        """Return what a CONNECT uses. What is empty was not said."""
        if client_id:
            self._open[session] = client_id
            self._latest[client_id] = session
        if not host:
            return []
        self._hosts[host] = None
        return self._of_host(host)

    def left(self, session: str) -> list[Finding]:
        """Return whether a session that ends had its client-id together with a later one."""
        client_id = self._open.pop(session, b"")
        if self._product != ACTIVEMQ or self._latest.get(client_id, session) == session:
            return []
        return [Finding(SHARED, Verdict.REFUSED, b"", "the broker refuses a second session of one client-id")]

    def _of_host(self, host: bytes) -> list[Finding]:
        name, setting = _quoted(host), 'host = "/"'
        if self._clients == RABBITMQ and (self._host or self._product != RABBITMQ):
            others = [_quoted(each) for each in self._hosts if each != host][:_SHOWN]
            why = f"it is at {name}, others are at {', '.join(others)}; there one name is one queue for all"
            verdict = Verdict.CHOSEN if self._host else Verdict.UNDECIDED
            return [Finding(HOSTS, verdict, b"", why, setting)] if others else []
        if self._host or host == b"/" or self._product != RABBITMQ or self._clients == RABBITMQ:
            return []
        return [
            Finding(
                HOSTS, Verdict.UNDECIDED, b"", f"the broker refuses {name}, if it has no such host", setting
            )
        ]


def _quoted(host: bytes) -> str:
    return f'"{host.decode("utf-8", "backslashreplace")}"'
