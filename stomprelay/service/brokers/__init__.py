"""All brokers of a relay: their states, and which sessions should leave or join them.

`brokers` every configured broker with its state and the names by which an operator can choose it, and taking brokers
out of service and back; `checks` what is checked once a second, and the connection of one probe; `outages` brokers in
trouble: their lines in the log, and the last ones for the dashboard.
"""
