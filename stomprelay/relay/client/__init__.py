"""A client, and what it has: brokers, a pace, an end.

`opening` is a client until it is in: CONNECT, and who it is; `connection` what comes on any leg from then on, and what
it means for the others, how brokers are sought, found and left, and what other rules or another token of the client
change; `shutdown` how the session ends, and the one owner of "the client is gone"; `turns` what the client sent and
nobody has read yet, how fast that may go on, and whose frames go on now.
"""
