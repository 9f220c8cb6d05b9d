"""One connection with its transport, its timers and its back-pressure, and what drives the core over it."""
