"""How it went with a message, or with one delivery of it; `tables` says what each means."""

from typing import Final

ACKED: Final = "acked"
NACKED: Final = "nacked"
DELIVERED: Final = "delivered"
RETURNED: Final = "returned"
UNDELIVERED: Final = "undelivered"
UNCONFIRMED: Final = "unconfirmed"
ABORTED: Final = "aborted"
