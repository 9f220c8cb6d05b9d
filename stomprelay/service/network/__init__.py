"""Sockets and certificates: endpoints to listen on and to connect to, and their TLS.

`endpoints` from configured strings to Twisted endpoints; `sockets` TCP connections, accepted and made; `sharing`
sockets that several processes accept from; `passing` sockets on their way to another process; `tls` certificates,
verified, and loaded anew when their files changed; `layer` TLS on a connection,
in large steps; `upgrade` a request for a WebSocket, and its answer; `websocket` messages on a connection; `messages`
which of them the compiled `_messages` takes at once; `deflate` those that are compressed; `proxy_protocol` who the
client is, told to brokers.
"""
