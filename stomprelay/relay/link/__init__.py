"""A session's connection to one group of brokers.

`link`: the broker that the session has or asks, or which broker is tried next and when; `probe`: a short session of
the relay's own, to learn how a broker is.
"""
