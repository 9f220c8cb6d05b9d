"""Follows a journal: finds new segments, and reads them in one batch after another.

- `stream`: the streaming query, and the steps of a batch
- `arrivals`: the segments that have come, cut into batches, and the batches that are done
- `progress`: what the user sees of a run
"""
