"""What passed through a relay, on disk: the one contract between the relay, which writes it, and the pipeline.

`block` how records stand in a file, `schema` what a record holds, `segment` a file's name and how it is read: these
three are the contract. `settings` what is configured, `capture` what
of a leg's frames and of a session is recorded, `writer` writes segments, `folder` lists, recovers and
removes them, `disk` what both ask of the file system. `tail` keeps what is recorded for who watches, on no disk.
`records` is a segment record by record, `command` is `stomprelay journal`, which shows them to people.
"""
