"""A client's frames, kept so that they can be sent again to the next broker.

`resender` the whole; `sender` sends to the present broker, `offline` keeps frames while there is none, `line` is what a
new broker has to know; `caution` how fast that goes, `unconfirmed` what is not confirmed, `committing` the transactions
in it.
"""
