"""What is configured and what is known of it, for all sessions together.

`listener` where clients come in and which destination goes where, `access` who they are, `upstream` where they are
relayed to, `group` brokers of which one serves a session at a time and how they are tried, `health` how a broker is,
`profile` what its product does differently, `balance` which sessions should move, `counters` what is counted,
`histogram` what is measured, `destinations` to which ones most is sent.
"""
