Brokers may be reached over WebSocket: `ws://host:port/path` and `wss://host:port/path` stand in `uri` wherever `tcp://` and `ssl://` do.
