"""A simulator: clients, relays, brokers and the network between them, in one thread and in virtual time. A world is
made from a seed, and the same seed plays the same world again. `python -m sim --help`.
"""
