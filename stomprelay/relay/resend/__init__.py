"""A client's frames, kept so that they can be sent again to the next broker.

`resender` sees to it from broker to broker: `sender` sends them to the one that is there, `offline` keeps them while
there is none, and `line` sends the next one again all that it has to know; `caution` decides how fast, and what no
broker is sent any more. `unconfirmed` is what is not confirmed, and which receipts the client is owed; `committing` are
the transactions among it.
"""
