"""The journal of a relay that runs: a queue of records, and the thread that writes them."""
