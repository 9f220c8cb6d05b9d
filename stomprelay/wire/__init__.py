"""Bytes to frames and back. No state but a buffer; imports nothing of ours.

`names` the words, `dialect` a version's facts, `frame` a frame, its limits and whether its head is right, `run`
neighbours that pass together, `decoder` chunks to frames and runs, `errors` the peer's errors; `_scan` and `_respell`
are the fast halves in C.
"""
