"""What passed through a relay, on disk: the one contract between the relay, which writes it, and the pipeline.

`schema` says what a record is, `block` how records stand in a file. `writer` writes files, `segment` reads one, and
`folder` looks after all of them; `command` shows them to people.
"""
