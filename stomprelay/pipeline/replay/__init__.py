"""Sending messages of the tables again, through the relay.

- `command`: the command `replay`: what was asked for, and what the user sees meanwhile
- `selection`: which messages, and what would be sent
- `state`: the folder of a replay: the messages selected, and how far it is
- `task`: what a task of Spark does: send one file
"""
