"""Makes rows of the table `frames` from segments of the journal, in the order of each relay's run.

- `frames`: the step of a batch; Spark's tasks share the segments
- `segments`: makes Arrow batches from one segment: the command and headers of each frame, its sizes, its body
- `writing`: the summary of each segment, and the table's files, if tasks can write these files
- `runs`: which segments of a run can be read now, and up to which time all runs have been read
- `gaps`: the missing segments, as rows of `quarantine` and as sentences
"""
