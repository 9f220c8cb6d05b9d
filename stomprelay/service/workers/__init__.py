"""A relay of several processes: a parent that listens, and workers that accept from its sockets and relay.

`service` the parent as a service; `crew` all workers as one relay: their sums, and orders to all of them; `worker` the
parent's end of one worker: start, restart, stop; `asking` the parent's HTTP requests to a worker; `plan` what a worker
gets when it starts; `placement` the brokers on which the sessions of all workers are; `child` the worker's own end, a
program.

They communicate by existing interfaces. A worker gets its plans, and the listeners' sockets, by its standard input, a
UNIX socket. It reports its state as to systemd (`sd_notify`). Its log is Twisted's JSON. Orders and sums use its own
admin endpoint, another UNIX socket. It stops as at SIGTERM when its standard input ends.
"""
