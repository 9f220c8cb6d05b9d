"""The embedded broker: queues and topics in memory, for development, tests and small jobs.

Nothing is durable, and no login is checked: every client may use every destination. There are no selectors and no
browsing (both are refused), no wildcards and no temporary destinations.

`broker` the whole and one client's connection, `commands` its frames, `destinations` queues and topics by name, and
transactions, `queue` one of them with its consumers, and writing, `message` a message, and limits.
"""
