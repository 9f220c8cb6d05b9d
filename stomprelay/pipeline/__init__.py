"""From the journal to tables, and from Spark to STOMP. In `stomprelay`, only this package imports PySpark and PyArrow.

Each module or room imports only modules and rooms that are further down in this list:

- `cli`: the command `stomprelay-pipeline`
- `commands`: the commands `once`, `run`, `query`, `migrate` and `tables`; `report` and `replay` are rooms of their own
- `options`: options that several commands have
- `follow`: new segments, batch after batch
- `tables`: the tables that are sums or episodes: `traffic`, `latency`, `flow`, `failovers`, `stuck`
- `match`: the table `messages`: the SENDs and MESSAGEs of all sessions brought together
- `sessions`: each session by itself: its SENDs and MESSAGEs, and the outcome of each
- `read`: segments to rows of the table `frames`
- `store`: the tables on disk, and the upkeep that keeps them small
- `stomp`: the data source `format("stomp")`, in both directions
- `spark`: a Spark session, Java, Spark's errors, Arrow
- `schema`, `settings`, `bar`: the tables with their columns; the pipeline's settings; a bar on a terminal
"""
