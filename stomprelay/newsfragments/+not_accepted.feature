A SEND that RabbitMQ rejects (a full queue with `reject-publish`, a quorum queue without a majority) costs its client an ERROR,
`a message was not accepted`, and not the session; `confirm_timeout` says how long a broker may take to confirm a SEND.
