"""Sockets, timers, TLS, logs and metrics: Twisted, and only here.

`protocol` one leg's connection, `perform` what the core asked for, `relaying` for a relay and `serving` for a
connection of the embedded broker, `alarms` waking the core, `valve` back-pressure, `direct` writing without waiting
for the reactor's next turn, `heap` memory for busy connections, `endpoints` from configuration to sockets, `tls`
certificates and their verification, `reasons` why connections end, in words, `memory` the way to the embedded broker,
`relayservice` and `brokerservice` what `twistd` runs, `admin` health, metrics and a status page, `notify` readiness
for systemd.
"""
