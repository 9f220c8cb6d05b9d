"""From the journal to tables, and from Spark to STOMP. Only here is PySpark imported, and PyArrow.

`tables` says what there is to query.
"""
