"""Each session by itself: its frames and events in order, and what they say of messages.

The door is `conversation`; records go in, by `reading`, and transfers come out.

- `record`: what is read of each frame and event; `reading`: that, from rows of `frames`, column by column
- `conversation`: one session's records in order
- `deliveries`, `publishing`, `outages`: what a session has: SUBSCRIBEs, and MESSAGEs that wait for their ACK; receipts
  and transactions; brokers and their losses
- `transfer`: one SEND or MESSAGE, and what came of it: a row for who brings the sessions together; `waits`: the same
  of deliveries that waited too long
"""
