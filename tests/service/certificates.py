"""What a listener with a certificate is configured with."""

from typing import Any

from stomprelay.relay.model.listener import ServerTLS
from tests.e2e.certificates import Credentials


def serving(own: Credentials, **settings: Any) -> ServerTLS:
    """A listener's TLS with this certificate."""
    return ServerTLS(str(own.certificate), str(own.key), **settings)
