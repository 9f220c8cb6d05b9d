"""Requests to the admin endpoint of a running relay. They list, pause and resume brokers, list and end sessions, show
frames as they pass, make the relay refuse new clients, and make it read its configuration again.

`commands` has the commands of the command line, and their output; `client` has the connection and the requests.
"""
