"""One connection with its timers and its back-pressure, and what drives a core over its connections.

`protocol` the connection of one leg, and performing effects; `runtime` what the connections of a service share, their
number among it; `web` those that may speak WebSocket; `relay_driver` driving a client's relay, recorded or not;
`recording` legs that are not read from, as the journal has them; `memory` what is kept of all clients; `departures`
clients that leave while they are not read from; `failures` why connections are not read from, end or cannot be had;
`session_info` what there is to see of a session; `timers` many timers on one, and whose work goes on when others had
their turn; `repeats` lines of the log, also those that peers can cause without end; `reactor` the one that reads pipes
without detour; `_pipe` what passes without the core, in C.
"""
