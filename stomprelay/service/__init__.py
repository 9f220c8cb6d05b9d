"""Sockets, timers, TLS, logs and metrics: all that needs Twisted. This package performs what the core returns.

`run` makes the process of a relay, for `stomprelay run` and `twistd`. `relay` is the relay as a service, `embedded` the
embedded broker. `state` has the parts of a running relay that listeners and the admin endpoint share. `process` has
what a process needs: signals, reloads, systemd, descriptors and memory. `handover` gives the sockets to the process
that takes over. `log` writes the relay's own lines. `drain` moves the messages of queues from one broker to another.

The rooms, from the outside in: `workers` is a relay of several processes; `admin` answers HTTP; `clients` accepts or
refuses clients, identifies them and begins their sessions; `brokers` probes, pauses and balances brokers; `moves` has
the phases of moves; `connection` connects a core to its connections; `journal` writes what passes; `network` has
endpoints and certificates.
"""
