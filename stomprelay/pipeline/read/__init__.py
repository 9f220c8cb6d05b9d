"""Segments of the journal to rows of the table `frames`, in the order of each relay's run.

- `frames`: the step of a batch, as Spark does it: segments shared among tasks
- `segments`: one segment to Arrow batches: the command and the headers of each frame, its sizes, its body
- `writing`: what tasks tell of each segment, and rows to the table's files, where tasks can write them
- `runs`: which segments of a run can be read on, and up to when all runs have been read
- `gaps`: which segments are missing, in `quarantine` and in words
"""
