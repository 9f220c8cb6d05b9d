"""The embedded broker: queues and topics in memory, for development, tests and small jobs.

It is not durable: what it holds is gone when the process ends, and a durable subscription is an ordinary one. It
asks nobody for a login or a passcode and keeps no client from any destination; where that matters, its endpoint
must be kept from others. It has no selectors, no browsing, no wildcards and no temporary destinations of a client's
own: the first two are refused, names that look like the others are ordinary names.

`bounds` how much it takes, `memory` the account of it, `message` what is sent, `entry` a message in one queue,
`outbox` what one leg is written, `consumer` one subscription, `queue` and `topic` where messages go,
`destinations` all of these by name, `transaction` what waits for COMMIT, `client` what a connected client's frames
do, `connection` one client's connection, `broker` the whole.
"""
