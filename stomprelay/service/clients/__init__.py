"""New clients.

`clients` decides which clients are accepted, begins their sessions, and refuses the others; `identification` finds out
the users of clients if their listener has `auth`; `auth_service` asks an HTTP service for a client's user.
"""
