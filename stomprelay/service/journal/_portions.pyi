from stomprelay.service.journal import portions

def checksum(data: bytes) -> int:
    """Return its CRC-32, as `zlib` has it."""

class Portions(portions.Portions):
    """The compiled `portions.Portions`."""
