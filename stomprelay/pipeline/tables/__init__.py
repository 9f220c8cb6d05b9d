"""The tables that are made of `frames` and `messages`; each module has `advance(batch)`, and the arithmetic as
functions of DataFrames.

- `rollup`: what tables of sums have in common: deltas by hour, and hours made anew of them
- `traffic`, `latency`, `flow`: sums
- `failovers`: outages of brokers
- `stuck`: consumers that do not answer
- `runs`: how relays began and ended
"""
