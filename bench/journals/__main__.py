"""The command line: `python -m bench.journals FOLDER --records N --seed S`, and further fields of `World`."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path

from bench.journals.traffic import make
from bench.journals.world import World


def main(arguments: Sequence[str] | None = None) -> int:
    """Make a journal; answers the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.journals", description=World.__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("folder", type=Path, help="where to; it is made, and must be empty")
    parser.add_argument(
        "--truth", type=Path, metavar="FILE", help="what is in it, as JSON, for other programs"
    )
    for each in fields(World):
        name = f"--{each.name}"
        if each.default is MISSING:
            parser.add_argument(name, type=int, required=True, metavar="N")
        elif isinstance(each.default, bool):
            parser.add_argument(name, action=argparse.BooleanOptionalAction, default=each.default)
        else:
            of = type(each.default)
            parser.add_argument(name, type=of, default=of(each.default), metavar=str(each.default))
    given = vars(parser.parse_args(arguments))
    folder, told = given.pop("folder"), given.pop("truth")
    try:
        world = World(**given)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ValueError(f"{folder} is not empty")
    except (ValueError, OSError) as error:
        parser.error(str(error))
    began = time.perf_counter()
    truth = make(folder, world)
    took = time.perf_counter() - began
    sizes = [path.stat().st_size for path in folder.iterdir()]
    print(
        f"{truth.records:,} records in {len(sizes)} segments, {sum(sizes) / 2**20:.1f} MiB, "
        f"{truth.records / took:,.0f} a second"
    )
    if told is not None:
        told.write_text(json.dumps(truth.told(), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
