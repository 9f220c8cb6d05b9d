"""The tables on disk, wherever Spark can reach it.

- `store`: reading, adding and replacing rows of tables; what a batch leaves for the next; one run at a time
- `volume`: files and folders
- `upkeep`: old hours removed, and when small files are joined
- `compaction`: how small files are joined
- `merging`: Parquet files made fewer, sorted by time
"""
