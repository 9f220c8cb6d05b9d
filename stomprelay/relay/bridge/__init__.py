"""Frames from one STOMP version to another: `bridge` one frame, by steps, `passing` frames that pass together,
`negotiation` the dialects and what a broker is asked.
"""
