"""Bytes to frames and back. No state but a buffer; imports nothing of ours.

`names` the words, `dialect` what a version of STOMP does, `frame` one frame as slices, `run` neighbours that pass
together, `spelling` what those of one dialect are in another, `decoder` chunks to frames and runs, `pieces` what is
unfinished, `head` whether a frame's head is right, and how large it may be, `errors` what is sent to the peer; `_scan`
is the fast half of the decoder and `_respell` of `spelling`, in C, where they were built.
"""
