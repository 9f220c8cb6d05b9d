"""The brokers of a relay: which there are, how they are probed, paused and balanced."""
