Brokers can be reached over WebSocket: `uri` takes `ws://host:port/path` and `wss://host:port/path` wherever it takes `tcp://` and `ssl://`.
