"""One conversation, without a clock: `now` is an argument, in seconds of any clock that never goes back.

`leg`: one STOMP connection and its heart-beats; `handshake`: CONNECT and CONNECTED; `subscriptions` and `ledger`: the
names of subscriptions and deliveries on each side (`delivery`: one delivery; `recent`: the newest deliveries; `_rows`:
their rows in C); `session`: what a client has open, and how many bytes are kept of the client; `effects`: what the
service must do; `refusal`: what refused peers are sent; `reasons`: words for failed connections.
"""
