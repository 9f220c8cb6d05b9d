"""Spark itself: a session of it, and what it needs.

- `launch`: a session with our settings, started and stopped
- `executors`: those of a cluster: what they must have, and our code for them
- `tasks`: into how many tasks a batch is cut, and what a small one does without
- `java`: which Java it runs on, and the cache folder for what is made once
- `class_archive`, `training`: Java's class archive, by which a session starts faster, and the run that makes it
- `delta`: the jars and settings of Delta Lake, and other files from Maven Central
- `errors`: Spark's errors as sentences
- `arrow`: rows and columns to and from Arrow
- `bundles`: rows for Python on their way from task to task
"""
