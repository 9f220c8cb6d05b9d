"""The journal of a relay that runs, from records in the reactor's thread to segments on disk.

`journal` takes records and events, and holds sessions while there is no room; `queue` keeps what waits; `writer_thread`
writes it with `stomprelay.journal`, in a thread of its own.
"""
