"""One client and several brokers.

`fanout`: the flow; `router`: the upstreams of a session (`Target`), the link of each group with the frames that wait
for it (`Member`), and the upstream of each destination (`Router`); `dispatch`: the members that a client's frame is
for; `quorum`: the confirmations by enough members, and groups that fail.
"""
