"""`make demo`: a relay, two brokers and clients for a minute, then tables and a report."""
