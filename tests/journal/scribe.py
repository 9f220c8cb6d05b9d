"""A program that writes a journal until it is killed: `python -m tests.journal.scribe FOLDER RUN SIZE PIECE`. The
system takes at most PIECE bytes at a time, as a disk might; so it can be killed within a block.

Each time that blocks were written, it writes the number of frames so far to standard output, in 8 bytes.
"""

import itertools
import os
import sys
from pathlib import Path
from struct import pack

from tests.journal.made import NOW, SECOND, frames, writer


def main(folder: str, run: str, size: str, piece: str) -> None:
    """Write blocks of all sizes, several at a time, in small segments, and sync now and then."""
    journal = writer(Path(folder), run, size=int(size), age=60)
    number = 0
    most = int(piece)
    system = os.write
    os.write = lambda file, data: system(file, memoryview(data)[:most])
    for turn in itertools.count():
        data = b""
        for _ in range(turn % 4 + 1):
            data += frames((b"SEND\nn:%d\n\n" % number, bytes(number * 7919 % 50_000)), number=number)
            number += 1
        journal.write(data, NOW + turn * SECOND)
        os.write(1, pack("<q", number))
        if turn % 10 == 0:
            journal.sync()


if __name__ == "__main__":
    main(*sys.argv[1:])
