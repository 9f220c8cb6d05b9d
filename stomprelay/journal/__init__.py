"""The journal: the frames that passed a relay, on disk. The relay writes the journal, and the pipeline reads it. It is
the only contract between them.

`block`: how a file stores records; `schema`: what a record has; `segment`: a file's name, and how to read the file.
These three are the contract. `settings`: what can be configured. `capture`: what is recorded of a leg's frames and of a
session. `writer` writes segments. `folder` lists, recovers and removes segments. `disk`: locks and syncing, for
`writer` and `folder`. `tail` keeps records in memory for a watcher. `records` reads a segment record by record,
and `follow` the segments of a folder while they are written.
`command` shows records to people: it is `stomprelay journal`.
"""
