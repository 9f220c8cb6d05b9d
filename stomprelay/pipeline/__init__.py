"""From the journal to tables, and from Spark to STOMP. Only here are PySpark and PyArrow imported.

From the outside in; imports point one way, down this list:

- `cli`: the command `stomprelay-pipeline`
- `commands`: its commands `once`, `run`, `query` and `tables`; `report` and `replay` are rooms of their own
- `options`: options that several commands have
- `follow`: new segments, batch after batch
- `tables`: the tables that are sums or episodes: `traffic`, `latency`, `flow`, `failovers`, `stuck`
- `match`: the table `messages`: the SENDs and MESSAGEs of all sessions brought together
- `sessions`: each session by itself: its SENDs and MESSAGEs, and what came of them
- `read`: segments to rows of the table `frames`
- `store`: the tables on disk, and what keeps them small
- `stomp`: the data source `format("stomp")`, in both directions
- `spark`: a Spark session, Java, Spark's errors, Arrow
- `schema`, `settings`, `bar`: which tables there are with their columns; the pipeline's settings; a bar on a terminal
"""
