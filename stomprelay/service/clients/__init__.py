"""Clients as they come.

`clients` begins their sessions, `admission` says which are taken, and what becomes of those that are too many;
`identification` finds out who they are where their listener asks, `auth_service` by a request over HTTP.
"""
