"""A relay of several processes: a parent that listens, and workers that accept from its sockets and relay.

`service` the parent as a service; `crew` all workers as one relay: their sums, and orders to all of them;
`worker` the parent's end of one worker: started, restarted, told to end; `asking` what the parent asks a worker for
over HTTP; `plan` what a worker is told when it starts; `placement` on which brokers the sessions of all
workers are; `child` the worker's own end, a program.

They speak by what is there for such ends: a worker gets its plans, and the listeners' sockets, by its standard input,
a UNIX socket; it says that it serves, and how it is, as it would tell systemd (`sd_notify`); its log comes as Twisted's
JSON; orders and sums go through its own admin endpoint, another UNIX socket; and it ends in good order when its
standard input does.
"""
