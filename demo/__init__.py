"""`make demo`: a relay, two brokers and foreign clients for twenty seconds, with a failover; then tables and a report.

`house` is what runs, `clients` who talks, `__main__` the course of it.
"""
