`stomprelay sessions` lists who is connected, by login, address, destination or broker, sorted by what they owe or send, in a
table or in JSON; `stomprelay kill` ends one session, whose client gets an ERROR that says so. Over HTTP: `GET /sessions`, a page
at a time, and `POST /sessions/NAME/kill`. The status page shows logins, idle time, subscriptions and what is unconfirmed, too.
`stomprelay brokers`, `resume` and `journal ls` have `--json`.
