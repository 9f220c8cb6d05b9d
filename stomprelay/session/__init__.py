"""One conversation, without a clock: `now` is an argument, in seconds of any steady clock.

`leg` one STOMP connection and its heart-beats, `handshake` CONNECT and CONNECTED, `subscriptions` and `ledger` how the
two sides name things (with `delivery`, `recent` and its rows in C, `_rows`), `session` what a client has
open and how much is kept of it, `effects` what the service must do, `refusal` what refused peers are sent, `reasons`
words for failed connections.
"""
