"""Sockets and certificates: endpoints to listen on and to connect to, TLS, and why connections fail.

`endpoints` from configured strings to Twisted endpoints; `tls` certificates and their verification; `reasons` why a
connection ended or could not be established, in words.
"""
