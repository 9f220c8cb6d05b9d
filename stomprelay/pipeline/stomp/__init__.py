"""The `stomp` data source: Spark as a consumer and a producer of STOMP.

    spark.readStream.format("stomp").option("destination", "/queue/orders").option("spool", "/data/spool").load(uri)
    frame.write.format("stomp").option("destination", "/queue/orders").save(uri)

From the outside in: `datasource`, which Spark finds; `options` and `connection`, what can be said to it, as `given`;
`reader`, `receivers`, `receiver`, `pending`, `columns` and `spool`, the way of a message into Spark; `writer`, `sending`,
`sends`, `window`, `pace` and `progress`, the way out; `client`, the session under both, with `relay_thread`, `queues`, `wakeup`,
`line` and `endpoint`, which perform for the relay's own core.
"""
