`map.filter` has the relay apply selectors of ActiveMQ's and Artemis' clients itself at RabbitMQ, which has none: to topics, and to queues whose other messages may be dropped.
