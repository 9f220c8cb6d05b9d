"""Bytes to frames and back. No state but a buffer; imports nothing of ours.

`names` the words, `dialect` what a version of STOMP does, `frame` one frame as slices, `decoder` chunks to
frames, `head` whether a frame's start is right, `limits` what is taken, `errors` what the peer is told.
"""
