from stomprelay.service.journal import portions

class Portions(portions.Portions):
    """The compiled `portions.Portions`."""
