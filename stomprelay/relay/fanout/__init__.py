"""One client and several brokers.

`fanout` the flow; `router` the upstreams of a session (`Target`), each group's link with what waits for it (`Member`),
and where destinations lead (`Router`); `dispatch` which members a client's frame is for; `quorum` what enough of them
confirmed, and groups that fail.
"""
