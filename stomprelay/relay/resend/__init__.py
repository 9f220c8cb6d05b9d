"""A client's frames, kept so that the next broker can be sent them again.

`resender`: sends the frames to the present broker, keeps them while there is no broker, and sends a new broker what it
needs first, as fast as is safe; `unconfirmed`: the unconfirmed frames, and transactions whose outcome is not known.
"""
