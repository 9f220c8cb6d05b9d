"""A client's frames, kept so that they can be sent again to the next broker.

`resender` the whole: what is sent to the present broker, what is kept while there is none, what a new broker has to
know, and how fast that goes; `unconfirmed` what is not confirmed, and transactions whose outcome is not known.
"""
