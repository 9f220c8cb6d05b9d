"""What a move would change, before anything is touched."""
