"""The endpoints `admin` and `metrics`, over HTTP: probes, metrics, a page for people, who is connected, and requests to
pause and resume brokers and to end sessions.

`site` what is answered to which request; `pages` how; `server` the HTTP server; `access` by which names it may be
asked, from which web pages orders are taken, and with which token; `readiness` whether the relay is to be sent clients;
`condition` how it is in a few words; `requests` the bodies of POST and the brokers in JSON; `sessions` who is
connected, a page at a time, in JSON; `overview` the page for people, whose files are in `page/`, and what it shows;
`console` the page that speaks STOMP; `metrics` the page for Prometheus; `snapshot` what they are made of, of one
process or the sum of several.
"""
