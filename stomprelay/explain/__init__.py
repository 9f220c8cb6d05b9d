"""How frames would be translated between two versions, told to people.

`conversation` frames as somebody wrote them down, `explanation` what becomes of each and why, `visible` octets as
text.
"""

from stomprelay.explain.explanation import Explanation

__all__ = ["Explanation"]
