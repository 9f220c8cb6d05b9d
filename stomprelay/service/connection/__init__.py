"""One connection with its timers and its back-pressure, and what drives a core over its connections.

`protocol` has the connection of one leg, and performs effects; `runtime` has what the connections of a service share;
`web` has connections that may speak WebSocket. `relay_driver` drives a client's relay, and has the session's figures.
`memory` limits the bytes that are kept of all clients. `failures` has the reasons why connections are not read from,
end or cannot be established. `reactor` reads pipes directly; `_pipe` lets frames pass without the core, in C.
"""
