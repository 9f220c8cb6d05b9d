"""The HTTP endpoints `admin` and `metrics`: probes, metrics, the dashboard, the list of sessions, and requests that
pause and resume brokers and end sessions.

`site` chooses the response to a request. `pages` sends it, and checks the host name, the origin of a POST and the
token. `server` is the HTTP server. `condition` has the relay of this process: it describes the relay's state, and
answers whether the relay is ready. `sessions` lists sessions in JSON, `console` is the page that speaks STOMP,
`metrics` the page for Prometheus. `snapshot` has the data of all pages, of one process or the sum of several.
"""
