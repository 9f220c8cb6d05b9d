"""A session's connection to one group of brokers: found, kept, lost, moved."""
