"""The embedded broker: queues and topics in memory, for development, tests and small jobs.

It is not durable: what it holds is gone when the process ends, and a durable subscription is an ordinary one. It
checks no login and no passcode and lets each client use every destination; where that matters, its endpoint must be
kept from others. It has no selectors, no browsing, no wildcards and no temporary destinations of a client's own: the
first two are refused, names that look like the others are ordinary names.

From the outside in: `broker` the whole, `connection` one client's connection, `commands` what its frames do,
`destinations` queues and topics by name and pending transactions, `queue` one queue or topic with its consumers,
`unsettled` what awaits an ACK, `output` what is written to the legs, `message` a message, `bounds` how much is taken.
"""
