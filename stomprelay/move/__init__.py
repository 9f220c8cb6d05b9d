"""Moves what is at one broker to another one.

- `consumer`: a client that takes messages from a broker, as the next two are
- `drain`: takes the messages that wait in queues of one broker, and gives them to another broker
- `compare`: compares what a broker got of the copies of SENDs with what the journal has
- `copies`: the copy of a message for another broker
"""
