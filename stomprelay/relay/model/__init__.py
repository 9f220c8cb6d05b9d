"""What is configured and what is known of it, for all sessions together.

`listener` where clients come in and which destination goes where, `rules` who they are, and what they may do,
`rates` how often they may come and how much they may send, `upstream` where they are relayed to, `group` brokers of
which one serves a session at a time, how they are tried, how each is, and which sessions should move, `profile` what
a broker's product does differently, `counters` what is counted and measured.
"""
