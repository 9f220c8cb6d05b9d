"""Spark itself: a Spark session, and what it needs.

- `launch`: starts and stops a session with our settings
- `executors`: the executors of a cluster: what they must have, and how they get our code
- `tasks`: the number of tasks for a batch, and what Spark need not do for a small batch
- `java`: the Java on which Spark runs, and the cache folder for files that are made once
- `class_archive`, `training`: Java's class archive, with which a session starts faster, and the run that makes it
- `delta`: the jars and settings of Delta Lake, and other files from Maven Central
- `errors`: Spark's errors as sentences
- `arrow`: rows and columns to and from Arrow
- `bundles`: rows that are bundled when they go from task to task
"""
