"""One conversation, without a clock: `now` is an argument, in seconds of any steady clock.

`leg` one STOMP connection and what may come on it when, `handshake` CONNECT and CONNECTED as values, `heartbeat` one
leg's beats, `subscriptions` and `ledger` how each side names the same thing (with `delivery`; `recent`, deliveries by
their names alone, kept by `rows` and in C by `_rows`; `namesakes`, those of one message-id; `positions`, a set of
places in an order), `session` what a client believes it has (it outlives its upstream legs), `kept` what is kept of
it in bytes, `effects` what the service must do, `refusal` what refused peers are sent, `reasons` words for
connections that fail.
"""
