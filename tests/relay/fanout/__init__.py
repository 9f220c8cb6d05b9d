"""Clients with several brokers at once: copies, routes, quorums."""
