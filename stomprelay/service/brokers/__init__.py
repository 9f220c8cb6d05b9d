"""All brokers of a relay: how they are, and which sessions should leave or join them.

`brokers` every configured broker with its state and the names by which an operator can choose it; `pause` taking
brokers out of service and back; `checks` what is checked once a second; `probe` the connection of one probe;
`outages` brokers in trouble: what the log has of them, and the last ones for the page for people.
"""
