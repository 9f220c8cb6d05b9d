"""The plugins that ``twistd`` finds: ``twistd stomprelay``, ``twistd stompbroker``, and the relay's reactor."""

from twisted.application.reactors import Reactor
from twisted.application.service import ServiceMaker

stomprelay = ServiceMaker(
    "stomprelay", "stomprelay.tap", "A relay between STOMP clients and STOMP brokers.", "stomprelay"
)
stompbroker = ServiceMaker(
    "stompbroker", "stomprelay.broker_tap", "A STOMP broker in memory, for development.", "stompbroker"
)
reactor = Reactor(
    "stomprelay",
    "stomprelay.service.connection.reactor",
    "epoll(4) based reactor of stomprelay, its default.",
)
