"""Journals as busy relays write them, made up: as many records as are asked for, quickly, the same each time.

world       World: several relays, and all that happens to them
traffic     make: a World's rounds, what is sent, delivered, answered, lost and delivered again
client      its clients: sessions with their legs, what they owe, and their frames as blocks
relay       its relays: a clock, runs that end and runs that die
truth       Truth: what must come out of the tables
"""

from bench.journals.traffic import make
from bench.journals.truth import Outage, Truth
from bench.journals.world import World

__all__ = ["Outage", "Truth", "World", "make"]
