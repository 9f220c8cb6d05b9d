"""One client and several brokers: copies, routes, quorums, one stream of answers."""
