"""Requests to the admin endpoint of a running relay: list, pause and resume its brokers; list and end its sessions;
show frames as they pass; refuse new clients; read its configuration again.

`commands` has the commands of the command line, and their output; `client` has the connection and the requests.
"""
