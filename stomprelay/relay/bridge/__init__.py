"""Frames from one STOMP version to another: `steps` the edits, `bridge` applies them to heads, `passing` frames that
pass together, `negotiation` the dialects and what a broker is asked, `own` headers of the relay's own.
"""
