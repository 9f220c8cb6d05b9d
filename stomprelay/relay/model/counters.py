"""The counters, by name and meaning. The names are those of the metrics and of the loss table in `docs/`."""

from typing import Final

COUNTERS: Final = {
    "sessions_opened": "connections that clients opened",
    "clients_refused": "clients that were turned away because there were too many connections",
    "logins_failed": "clients that were not let in, because what they showed is wrong",
    "logins_unchecked": "clients that were not let in, because who decides could not be asked, or not in time",
    "sessions_connected": "clients that were answered CONNECTED",
    "client_bytes": "bytes received from clients",
    "broker_bytes": "bytes received from brokers",
    "client_frames": "frames received from connected clients",
    "broker_frames": "frames received from connected brokers",
    "errors_sent": "ERROR frames of the relay's own making",
    "frames_denied": "frames of clients that were refused because of the rules on what clients may do",
    "errors_passed": "ERROR frames of brokers passed to clients",
    "errors_withheld": "ERROR frames by which a broker told that it goes away, kept from a client that gets another",
    "brokers_refused": "brokers that could not be reached or did not answer CONNECT",
    "connects_rejected": "clients given up because brokers that were well did not answer their CONNECT, but closed",
    "connects_prevented": "connections to brokers that this process had no file descriptor or memory for",
    "brokers_lost": "broker connections lost under a connected client",
    "clients_vanished": "clients that went without DISCONNECT",
    "clients_undelivered": "clients that were gone and whose time was over before all they had sent was confirmed",
    "faults": "sessions that ended because the relay itself failed; the log has a traceback of each",
    "beats_missed": "legs given up because their peer fell silent",
    "foreign": "connections that spoke TLS or HTTP on a plain STOMP port",
    "brokers_moved": "sessions that left their broker for another one because they were asked to",
    "failovers": "sessions that went on with a broker after they had lost one",
    "sessions_crowded": "sessions that were ended because the relay was short of memory",
    "sessions_given_up": "connected clients that were told that no broker could be had any more",
    "frames_resent": "frames sent again because nothing showed that the lost broker had them",
    "poison_refused": "frames taken out of what is sent again because brokers closed the connection for them",
    "acks_stale": "ACKs and NACKs left out because the broker of their message was lost",
    "possibly_lost": "SENDs that no broker may have had, and that were not sent again",
    "fanout_overflowed": "SENDs that a group of a fan-out missed because its queue was full",
    "fanout_errors": "ERRORs of a fan-out's groups that clients were not told of, for other groups thought otherwise",
    "loss_value": "header values changed because the other version cannot express them",
    "loss_name": "headers left out because the other version cannot express their name",
    "loss_reserved": "headers of publishers removed because only a broker may set them",
    "selector_ignored": "SUBSCRIBEs with a selector toward a broker that ignores selectors",
}


class Counters(dict[str, int]):
    """Counts by name; every name of COUNTERS is there from the start."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COUNTERS, 0))
