"""Frames from one STOMP version to another.

`steps` the edits, each needed where a fact of the two dialects differs; `bridge` applies them to a frame's head;
`passing` which frames pass together, with the same edit or none; `negotiation` which dialects meet, and what a broker
is asked for; `own` what a relay puts in for itself.
"""
