"""How a session begins and how it ends.

`opening` is a client until it is in: CONNECT, and who it is; `shutdown` the session from the first sign of its end on.
"""
