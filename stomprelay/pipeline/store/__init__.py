"""The tables, on any disk that Spark can reach.

- `store`: reading, adding and replacing rows of tables; what a batch leaves for the next batch
- `delta`: the same with Delta Lake; `opened` returns the store for a format
- `layout`: the names of folders, and the file that says which layout and format the tables have
- `volume`: files and folders
- `upkeep`: the lock for one run at a time; removes old hours, joins small files, migrates tables of the earlier layout
- `compaction`: how small files are joined
- `files`: Parquet files that tasks write themselves; merges many files to a few that are sorted by time
"""
