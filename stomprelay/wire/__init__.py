"""From bytes to STOMP frames, and back. The room keeps no state but a buffer, and imports no other room.

`names` has the words of STOMP; `dialect` the facts of each version; `frame` a frame, its limits, and the check of its
head; `run` neighbouring frames that pass together; `decoder` makes frames and runs of chunks; `errors` has the errors
that peers are sent. `_scan` and `_respell` do a part of it faster, in C.
"""
