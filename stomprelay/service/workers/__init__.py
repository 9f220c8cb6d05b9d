"""A relay of several processes: a parent that listens, and workers that accept from its sockets and relay.

`service` is the parent as a service. `crew` is all workers as one relay: it sums their figures, and gives orders to all
of them. `worker` is the parent's end of one worker: it starts, restarts, stops and asks the process. `loads` has the
numbers that all workers share. `child` is the program of a worker, with the plan that it gets when it starts.

A worker gets its plans and the listeners' sockets by its standard input, a UNIX socket. By the same socket it answers
questions and orders, and sends notices of its state, in the form of `sd_notify`. A worker's log is Twisted's JSON. A
worker stops as at SIGTERM when the parent sends `stop`, or when its standard input ends.
"""
