"""What ``twistd`` finds: ``twistd stomprelay`` and ``twistd stompbroker``."""

from twisted.application.service import ServiceMaker

stomprelay = ServiceMaker(
    "stomprelay", "stomprelay.tap", "A relay between STOMP clients and STOMP brokers.", "stomprelay"
)
stompbroker = ServiceMaker(
    "stompbroker", "stomprelay.broker_tap", "A STOMP broker in memory, for development.", "stompbroker"
)
