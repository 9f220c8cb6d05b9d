"""The tables that are made of `frames` and `messages`.

- `rollup`: sums: `traffic`, `latency` and `flow`
- `episodes`: tables whose rows may still change: `failovers`, outages of brokers; `stuck`, consumers without ACKs;
  `runs`, the runs of relays
"""
