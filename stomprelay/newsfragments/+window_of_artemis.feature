`move check` tells which subscriptions with ACKs may wait at Artemis without end, because it delivers 10 KiB before the first ACK, and the line that asks for more.
