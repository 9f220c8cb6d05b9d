"""The tables that are made of `frames` and `messages`.

- `rollup`: the tables of sums: `traffic`, `latency` and `flow`
- `episodes`: the tables whose rows may still change: `failovers`, outages of brokers; `stuck`, consumers without ACKs;
  `runs`, the runs of relays
"""
