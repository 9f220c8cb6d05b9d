"""Each session by itself: its frames and events in order, and what follows for messages.

Other rooms call `conversation`: it takes records, which `reading` makes, and yields transfers.

- `record`: what is read of each frame and event; `reading`: makes records from rows of `frames`, column by column
- `conversation`: one session's records in order
- `deliveries`, `publishing`, `outages`: what a session has: SUBSCRIBEs, and MESSAGEs that wait for their ACK; receipts
  and transactions; brokers and their losses
- `transfer`: one SEND or MESSAGE and its outcome, as a row for the room `match`; `waits`: deliveries that waited too
  long
"""
