"""The flow with several brokers at once.

`fanout` carries the client's frames to them and theirs to it; `dispatch` chooses which brokers a frame is for;
`router` the upstreams and groups of a session; `member` one group's link; `quorum` what enough groups agree on.
"""
