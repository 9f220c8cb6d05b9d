"""Keeping what was freed.

The C library gives memory at the top of its heap back to the system as soon as there is a little of it, and takes
large blocks from the system each time. Chunks of a busy connection are such blocks: without this every chunk is paid
for with fresh pages, which costs as much as relaying it.
"""

import ctypes
from typing import Final

KEPT: Final = 16 * 1024 * 1024
"""Octets at the top of the heap that are not given back."""
LARGE: Final = 2 * 1024 * 1024
"""Octets from which on a block is taken from the system by itself."""

# glibc's malloc.h
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def keep_freed() -> bool:
    """Set both for this process. False where the C library knows no `mallopt` (musl, macOS): nothing is changed."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, KEPT)) and bool(mallopt(_M_MMAP_THRESHOLD, LARGE))
