"""Each session by itself: its frames and events in order, and what follows for messages.

Other rooms call `conversation`: it takes records, which `reading` makes, and yields transfers.

- `record`: what is read of each frame and event
- `reading`: makes records from rows of `frames`, column by column
- `conversation`: one session's records in order
- `deliveries`: the subscriptions of a session, and MESSAGEs that wait for their ACK
- `publishing`: receipts and transactions
- `outages`: brokers and their losses
- `transfer`: one SEND or MESSAGE and its outcome, as a row for the room `match`
- `waits`: deliveries that waited too long
"""
