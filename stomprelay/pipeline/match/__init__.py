"""The table `messages`: the transfers of all sessions brought together, order by order and message by message.

The door is `messages`: nobody outside asks for anything else.

- `messages`: the step of a batch, as Spark does it session by session, order by order and message by message, until
  final rows are in the table's files; and what other tables ask of it
- `at_once`: all of that in one task, of a small batch
- `slices`: the parts in which open messages are kept, and which of them a batch touches
- `order`: which message each transfer is of, where its key does not say: key by key, in the order of sending
- `matching`: the transfers of one key in the order of time; one message, and its row of the table
"""
