"""One conversation, without a clock: `now` is an argument, in seconds of any steady clock.

`states` what may come when, `handshake` CONNECT and CONNECTED as values, `heartbeat` one leg's beats, `leg` one
STOMP connection, `subscriptions` and `ledger` how each side names the same thing, `session` what a client
believes it has (it outlives its upstream legs), `effects` what the service must do, `reasons` words for its log,
`complaint` ERROR frames of our own, `foreign` peers that do not speak STOMP.
"""
