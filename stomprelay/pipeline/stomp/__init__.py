"""The `stomp` data source: Spark as a consumer and a producer of STOMP.

    spark.readStream.format("stomp").option("subscribe", "/queue/orders").option("spool", "/data/spool").load(uri)
    frame.write.format("stomp").option("destination", "/queue/orders").save(uri)

- `datasource`: what Spark calls
- `options`: the options, and how their values are read
- `receivers`: the connections that receive messages for a query
- `spool`, `columns`: received messages on disk, and as rows
- `scans`: the rows that a batch read has received
- `sending`: makes SENDs from rows, and sends the rows of a task
- `progress`: how many rows of a writing job are confirmed
- `client`: one STOMP session, for receiving or sending
- `relay_thread`, `sockets`: the relay's own core on an event loop in a thread, and the connections of that loop
"""
