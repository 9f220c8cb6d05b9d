"""One client and several brokers.

`fanout` the flow; `router` the upstreams of a session (`Target`) and where destinations lead (`Router`); `member` one
group's link with what waits for it; `dispatch` which members a client's frame is for; `quorum` what enough of them
confirmed, and groups that fail; `merge` brokers' frames as one stream; `disconnect` a DISCONNECT to all of them.
"""
