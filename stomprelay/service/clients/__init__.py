"""New clients.

`clients` begins their sessions; `admission` decides which clients are accepted, and refuses the others;
`identification` finds out the users of clients where their listener has `auth`; `auth_service` asks an HTTP service for
that.
"""
