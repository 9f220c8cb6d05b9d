"""A client's frames, kept so that they can be sent again to the next broker."""
