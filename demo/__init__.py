"""`make demo`: a relay, two brokers and foreign clients for twenty seconds, with a failover; then tables and a report.

`clients` who talks, `__main__` what runs, and the course of it; `move` a move between two brokers, with `move.html`.
"""
