"""A session's connection to one group of brokers.

`link` the broker that it has or the search for one, as one of the `states`; `handshake` one broker asked for CONNECTED;
`schedule` which broker is tried next, and when; `suspicion` whether the client's CONNECT is why none accepts it;
`probe` the relay's own conversation with a broker, to learn how it is.
"""
