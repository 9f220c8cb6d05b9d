"""The `stomp` data source: Spark as a consumer and a producer of STOMP.

    spark.readStream.format("stomp").option("subscribe", "/queue/orders").option("spool", "/data/spool").load(uri)
    frame.write.format("stomp").option("destination", "/queue/orders").save(uri)

- `datasource`: what Spark calls
- `options`: what can be set, and how a value is read
- `receivers`, `spool`, `columns`, `scans`: in: the connections of a query; messages on disk; as rows; which of them a
  batch read has
- `sending`, `progress`: out: a row as a SEND, the rows of a task; how far a job has come
- `client`: one STOMP session, on which both rest
- `relay_thread`, `sockets`: below it, the relay's own core on an event loop in a thread; the connections of that loop
"""
