"""Sockets and certificates: endpoints to listen on and to connect to, and their TLS.

`endpoints` makes Twisted endpoints from configured strings. `sockets` has accepted and made TCP connections, `sharing`
sockets from which several processes accept; `passing` sends sockets to another process. `tls` verifies certificates,
and loads changed files again; `layer` is TLS on a connection, in large steps. `upgrade` has the request for a WebSocket
and its answer, `websocket` the messages; the compiled `_messages` reads most messages, `deflate` inflates compressed
messages. `proxy_protocol` sends the client's address to brokers.
"""
