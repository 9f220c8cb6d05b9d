"""A client's frames, kept so that they can be sent again to the next broker.

`resender` sends them to the broker that is there, `offline` keeps them while there is none, `unconfirmed` is what is
not confirmed, and which receipts the client is owed; `committing` are the transactions among it. `caution` decides how
fast they are sent again, and which of them no broker is sent any more.
"""
