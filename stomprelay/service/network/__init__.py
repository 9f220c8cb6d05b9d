"""Sockets and certificates: endpoints to listen on and to connect to, and their TLS.

`endpoints` from configured strings to Twisted endpoints; `sockets` TCP connections, accepted and made; `sharing`
sockets that several processes accept from; `passing` sockets on their way to another process; `tls` certificates,
verified; `layer` TLS on a connection, in large steps.
"""
