"""Clients as they come.

`clients` begins their sessions, `admission` says which are taken, and what becomes of those that are too many.
"""
