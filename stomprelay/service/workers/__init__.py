"""A relay of several processes: a parent that listens, and workers that accept from its sockets and relay.

`service` the parent as a service; `crew` all workers as one relay: their sums, and orders to all of them; `worker` the
parent's end of one worker: start, restart, stop, questions; `loads` the numbers that all workers share; `child` the
worker's own end, a program, and the plan that it gets when it starts.

They communicate by existing interfaces. A worker gets its plans, and the listeners' sockets, by its standard input, a
UNIX socket; by the same socket it answers questions and orders, and reports its state as to systemd (`sd_notify`). Its
log is Twisted's JSON. It stops as at SIGTERM when it is told to, or its standard input ends.
"""
