"""Sockets, timers, TLS, logs and metrics: Twisted, and only here. It performs what the core returns.

`run` is a relay as a process, as `stomprelay run` and `twistd` have it; `relay` and `embedded` are the services in it:
a relay, and the embedded broker; `state` is what both listeners and the admin endpoint know of a running relay;
`process` its start, signals, another configuration while it runs, systemd, descriptors and memory; `handover` its
sockets, for the process that takes its place; `log` the relay's own lines, and how many there are.

The rooms, from the outside in: `workers` a relay of several processes; `admin` health, metrics and requests over HTTP;
`clients` which ones are taken, who they are, and their sessions; `brokers` probing, pausing and balancing brokers;
`connection` one connection, and the drivers that connect a core to its connections; `journal` writing what passes;
`network` endpoints and certificates.
"""
