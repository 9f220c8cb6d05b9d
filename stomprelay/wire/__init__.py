"""Bytes to frames and back. No state but a buffer; imports nothing of ours.

`names` the words, `dialect` a version's facts, `frame` a frame, `run` neighbours that pass together, `spelling` them in
another dialect, `decoder` chunks to frames and runs, `pieces` unfinished bytes, `head` a frame's head and its limits,
`errors` the peer's errors; `_scan` and `_respell` are the fast halves in C.
"""
