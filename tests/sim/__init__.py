"""The simulator: its worlds can be played again, its judge sees what it looks for, and it finds nothing."""
