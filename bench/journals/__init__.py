"""Journals as busy relays write them, made up: as many records as are asked for, quickly, the same each time.

    load        Load: one run of one relay, producers and consumers and nothing that goes wrong
    world       World: several relays, and all that happens to them
    traffic     make: a World's rounds, what is sent, delivered, answered, lost and delivered again
    client      its clients: sessions with their legs, and what they owe
    relay       its relays: a clock, runs that end and runs that die
    chunk       the frames of one chunk as a block
    truth       Truth: what must come out of the tables

`python -m bench.journals FOLDER --records N` makes a World's.
"""

from bench.journals.load import SECOND, START, Load, blocks, write
from bench.journals.traffic import make
from bench.journals.truth import Outage, Truth
from bench.journals.world import World

__all__ = ["SECOND", "START", "Load", "Outage", "Truth", "World", "blocks", "make", "write"]
