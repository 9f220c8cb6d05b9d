"""The table `messages`: what is known of each message from the frames of all sessions.

First session by session, then order by order, then message by message:

- `messages`: the step of a batch, as Spark does it
- `passes`: what of that is done session by session, order by order and message by message
- `at_once`: all of that in one task, of a small batch
- `slices`: the parts in which open messages are kept, and which of them a batch touches
- `record`: what is read of each frame and event; `reading`: that, from rows of `frames`, column by column
- `conversation`: one session's records in order
- `subscriptions`, `deliveries` and `pending`, `publishing`, `outages`: what a session has: SUBSCRIBEs; MESSAGEs that
  wait for their ACK; receipts and transactions; brokers and their losses
- `transfer`: a row between both halves: one SEND or MESSAGE, and what came of it
- `matching`: the transfers of one key in the order of time
- `message`: one message, and its row of the table
- `plain`: rows of messages that need no `message`, column by column
- `finals`: final rows to the table's files, where tasks can write them
- `ordering`: which message each transfer is of, where its key does not say: key by key
- `order`, `flight`: one such key, in the order of sending
"""
