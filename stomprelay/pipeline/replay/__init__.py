"""Sending messages of the tables again, through the relay.

- `command`: the command `replay`: its options, and what the user sees while it runs
- `selection`: which messages are selected, and what would be sent
- `state`: the folder of a replay: the selected messages, and how many of them are confirmed
- `task`: a task of Spark, which sends one file
"""
