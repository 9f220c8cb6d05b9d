"""`stomprelay explain`: how frames would be translated between two versions, in words.

`text` reads the frames that a user wrote down, `explanation` is what becomes of each and why.
"""

from stomprelay.explain.explanation import Explanation

__all__ = ["Explanation"]
