"""The embedded broker: queues and topics in memory, for development, tests and small jobs.

It is not durable: its messages are lost when the process ends, and a durable subscription is an ordinary one. It checks
no login and no passcode and lets each client use every destination; if that matters, nobody else may reach its
endpoint. It has no selectors, no browsing, no wildcards and no temporary destinations of a client's own: the first two
are refused, names that look like the others are ordinary names.

From the outside in: `broker` the whole, `connection` one client's connection, `commands` the effects of its frames,
`destinations` queues and topics by name and pending transactions, `queue` one queue or topic with its consumers,
`unsettled` deliveries that await an ACK, `output` what is written to the legs, `message` a message, `bounds` the
limits.
"""
