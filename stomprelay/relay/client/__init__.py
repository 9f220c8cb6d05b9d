"""A client, and what it has: brokers, a pace, an end.

`opening` is a client until it is in: CONNECT, and who it is; `connection` what comes on any leg from then on, and what
it means for the others; `search` the brokers of the session, sought, found, left, given up; `shutdown` how it ends, and
the one owner of "the client is gone"; `review` other rules for a client that is in, or another token of it; `turns`
whose frames go on now; `buffer` what the client sent and nobody has read yet; `pace` how fast that may go on.
"""
