"""The tables that are made of `frames` and `messages`.

- `rollup`: sums: `traffic`, `latency` and `flow`
- `episodes`: rows that change for a while: `failovers`, outages of brokers; `stuck`, consumers that do not answer;
  `runs`, how relays began and ended
"""
