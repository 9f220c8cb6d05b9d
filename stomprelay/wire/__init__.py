"""This package turns bytes into STOMP frames, and frames into bytes. Its only state is a buffer. It imports no other
package of the relay.

`names` has the words of STOMP; `dialect` has the facts of each version; `frame` has a frame, its limits, and the check
of its head; `run` has neighbouring frames that pass together; `decoder` turns chunks into frames and runs; `errors` has
the errors that peers are sent. `_scan` and `_respell` do a part of this work faster, in C.
"""
