"""The journal of a running relay, from records in the reactor's thread to segments on disk.

`tails` lets requests watch what passes, with a journal or without one. `journal` takes records and events, and holds
sessions while there is no room. `portions` keeps the blocks that wait, and limits them; the compiled `_portions` is its
twin. `writer_thread` writes them with `stomprelay.journal`, in a thread of its own.
"""
