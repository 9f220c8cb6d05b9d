"""Moves what is at one broker to another one.

- `drain`: takes the messages that wait in queues of one broker, and gives them to another broker
- `copies`: the copy of a message for another broker
"""
