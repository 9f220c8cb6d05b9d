`stomprelay brokers`, the dashboard and the metric `stomprelay_broker_waiting` say about how many messages wait in the queues of each
broker, also of one that was lost.
