"""Sockets, timers, TLS, logs and metrics: Twisted, and only here.

`protocol` one leg's connection, `perform` what the core asked for, `relaying` for a relay, `probing` for a probe and
`serving` for a connection of the embedded broker, `alarms` waking the core, `valve` and `outlet` back-pressure,
`direct` writing without waiting for the reactor's next turn, `heap` memory for busy connections, `endpoints` from
configuration to sockets, `ways` to the brokers, `tls` certificates and their verification, `reasons` why connections
end, in words, `memory` the way to the embedded broker.

`journalled` is `relaying` where a journal is kept, with `standstill` for what it tells of back-pressure; `journal`
takes the records, `spool` is their queue, and `scribe` the thread that writes them.

`relayservice` and `brokerservice` are what `twistd` runs; `roster` all brokers, `rounds` what is looked after once a
second, `switchover` pausing and resuming brokers, `signals` the same by signal, `admin` the same and all there is to
see over HTTP, with `orders`, `metrics` and `status` for what it is told and tells, `notify` readiness for systemd.
"""
