"""A session's connection to one group of brokers.

`link` the broker that it has or asks, or which broker is tried next, and when; `probe` the relay's own conversation
with a broker, to learn how it is.
"""
