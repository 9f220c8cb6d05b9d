"""The embedded broker: queues and topics in memory, for development, tests and small jobs.

Nothing is durable, and no login is checked: every client may use every destination. There are no selectors and no
browsing (both are refused), no wildcards and no temporary destinations.

`broker` has the whole broker, and one client's connection; `commands` executes the client's frames; `destinations` has
all queues and topics by name, and transactions; `queue` has one queue or topic with its consumers, and the output to
legs; `message` has a message, and the limits.
"""
