"""What is configured, and what is known about it, for all sessions together.

`listener`: where clients connect, and which upstream has which destination; `move`: how far a destination has moved to
another upstream; `rules`: who clients are and what they may do; `rates`: how often clients may connect and how much
they may send; `upstream`: the brokers for clients; `group`: brokers of which one serves a session at a time, their
order, their health, and which sessions should move; `profile`: what a product does differently; `features`: what
clients of one product use, in the words of each product; `mapping`: how clients' frames are said to the brokers of a
product; `selector`: which messages a client's selector fits; `usage`: what clients use, and what becomes of it there;
`names`: how names of places are spelled for a broker; `counters`: what is counted and measured.
"""
