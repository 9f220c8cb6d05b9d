"""The tables on disk, wherever Spark can reach it.

- `store`: reading, adding and replacing rows of tables; what a batch leaves for the next
- `lock`: one run at a time
- `delta`: the same with Delta Lake; which of the two a folder needs
- `layout`: what a folder of tables says of itself
- `volume`: files and folders
- `upkeep`: old hours removed, when small files are joined, and tables of the layout before migrated
- `compaction`: how small files are joined
- `files`: Parquet files that tasks write themselves
- `merging`: Parquet files made fewer, sorted by time
"""
