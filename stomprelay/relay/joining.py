"""Which flow a client needs: one broker at a time, or several."""

from collections.abc import Callable

from stomprelay.relay.branch import Branch
from stomprelay.relay.distribution import Distribution
from stomprelay.relay.flow import Flow
from stomprelay.relay.listener import Listener
from stomprelay.relay.trace import Tracer
from stomprelay.relay.traffic import Traffic
from stomprelay.relay.upstream import Upstream
from stomprelay.session.handshake import Offer
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session


def join(
    client: Leg, listener: Listener, offer: Offer, session: Session, chance: Callable[[], float]
) -> Flow:
    """What joins this client to the listener's upstream, and to those of its routes. Its branches are still to
    seek their brokers.
    """
    upstream = listener.upstream
    if len(upstream.groups) == 1 and not listener.routes:
        branch = Branch(listener, upstream, upstream.groups[0], offer, session, chance)
        return Traffic(client, branch, Tracer(session.name) if listener.trace else None)
    sessions = [session]

    def branches(needed: Upstream) -> list[Branch]:
        """Each has an account of its own with its broker; the client's own serves for the first."""
        return [
            Branch(
                listener,
                needed,
                group,
                offer,
                sessions.pop() if sessions else session.beside(),
                chance,
                carried=True,
            )
            for group in needed.groups
        ]

    return Distribution(client, listener, session, branches)
