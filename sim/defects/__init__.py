"""Defects that this repository once had, as patches that put them back, one in each file `NAME.patch`: what the defect
was, the commit that mended it, then the edit. `python -m sim.proof` has worlds find them.
"""
