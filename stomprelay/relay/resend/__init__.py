"""A client's frames, kept so that the next broker can be sent them again.

`resender`: what the present broker is sent, what is kept while there is no broker, what a new broker must be sent
first, and how fast; `unconfirmed`: the unconfirmed frames, and transactions whose outcome is not known.
"""
