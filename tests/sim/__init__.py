"""The simulator: that its worlds can be played again, that it sees what it looks for, and that it finds nothing."""
