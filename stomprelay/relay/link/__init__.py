"""A session's connection to one group of brokers.

`link` the broker that it has or asks, or the wait for the next attempt; `search` which broker is tried next, and when,
and whether the client's CONNECT is why none accepts it; `probe` the relay's own conversation with a broker, to learn
how it is.
"""
