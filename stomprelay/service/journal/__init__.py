"""What is recorded of a relay that runs: its journal, from records in the reactor's thread to segments on disk.

`tails` is who watches what passes, for whom it is recorded whether there is a journal or not. `journal` takes records
and events, and holds sessions while there is no room; `portions` keeps what waits, as blocks, which the compiled
`_portions` makes at once, and says how much may wait; `writer_thread` writes it with `stomprelay.journal`, in a thread
of its own.
"""
