"""A session's connection to one group of brokers.

`link`: the broker of the session, or the search for a broker; `probe`: a short session of the relay's own, which shows
how a broker is.
"""
