"""One connection with its timers and its back-pressure, and what drives a core over its connections.

`protocol` the connection of one leg, and performing effects; `runtime` what the connections of a service share; `web`
those that may speak WebSocket; `relay_driver` driving a client's relay, recorded or not, and what there is to see of
it; `memory` what is kept of all clients; `failures` why connections are not read from, end or cannot be had; `reactor`
the one that reads pipes without detour; `_pipe` what passes without the core, in C.
"""
