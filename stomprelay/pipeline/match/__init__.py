"""The table `messages`: the transfers of all sessions brought together, order by order and message by message.

Other rooms import only `messages`.

- `messages`: the step of a batch. Spark works session by session, order by order and message by message, and writes
  the final rows to the table. The functions that other tables call are here, too.
- `at_once`: the same step in a single task, for a small batch
- `slices`: the parts in which open messages are kept, and which parts a batch touches
- `order`: the message of each transfer by the order of sending, if the key does not identify the message
- `matching`: the transfers of one key in the order of time; one message, and its row of the table
"""
