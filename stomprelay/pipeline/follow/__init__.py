"""Following a journal: which segments are new, and one batch after another of them.

- `stream`: the streaming query; what a batch does, step by step
- `arrivals`: which segments have come, cut into batches, and which batches are done
- `progress`: what the user sees of a run
"""
