"""The HTTP endpoints `admin` and `metrics`: probes, metrics, the dashboard, the list of sessions, and requests that
pause and resume brokers and end sessions.

`site` which request gets which response; `pages` how a page is sent, the allowed host names, the web pages that may
send a POST, and the token; `server` the HTTP server; `condition` the relay of this process, as it is asked: its state
in a few words, and whether it is ready for clients; `sessions` the sessions in JSON, a page at a time; `console` the
page that speaks STOMP; `metrics` the page for Prometheus; `snapshot` the data of all pages, of one process or the sum
of several.
"""
