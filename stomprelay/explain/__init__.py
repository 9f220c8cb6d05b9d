"""`stomprelay explain`: frames translated between two versions, in words. `text` reads them, `explanation` explains."""

from stomprelay.explain.explanation import Explanation

__all__ = ["Explanation"]
