"""Random conversations with a relay in process: any client, any broker, a clock of plain numbers, all from one seed.

words       values, frames and what spoils them; pieces of conversations that were recorded with real brokers
client      what a client says next, by what it was told
broker      brokers: the embedded one, and one that says anything
scene       which listener, upstream and brokers a world has
caller      a client, its relay and the sockets between them; what must hold of each effect
world       one world: what happens in it, its time, and how it ends
run         world after world, what was found, and the figures
told        one world input by input
"""
