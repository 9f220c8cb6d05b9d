"""Joining legs, still without any I/O.

`listener` and `upstream` what is configured, `profile` how a broker departs from its version, `bridge` frames from
one dialect to another, `bridges` which bridges a session needs, `effects` what the service must do, `counters` what is
counted, `relay` one client joined to its broker.
"""
