"""The tables on disk, wherever Spark can reach it.

- `store`: reading, adding and replacing rows of tables; what a batch leaves for the next
- `delta`: the same with Delta Lake; which of the two a folder needs
- `layout`: what a folder of tables says of itself
- `volume`: files and folders
- `upkeep`: one run at a time; old hours removed, when small files are joined, and tables of the layout before migrated
- `compaction`: how small files are joined
- `files`: Parquet files that tasks write themselves, and many made few, sorted by time
"""
