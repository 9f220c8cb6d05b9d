"""The endpoints `admin` and `metrics`, over HTTP: probes, metrics, a status page, who is connected, and requests to
pause and resume brokers and to end sessions.

`site` what is answered to which request; `pages` how; `server` the HTTP server; `access` by which names it may be
asked, and with which token; `readiness` whether the relay is to be sent clients; `requests` the bodies of POST and the
brokers in JSON; `sessions` who is connected, a page at a time, in JSON; `status` the page for people; `metrics` the
page for Prometheus; `snapshot` what they are made of, of one process or the sum of several.
"""
