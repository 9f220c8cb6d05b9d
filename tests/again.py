"""What failed in the last run of pytest, run again: each test by itself, on a machine that does nothing else.

    python -m tests.again --deep

A test that passes now is unstable: it is named, and is a defect of the test or of the product. The core has no clock
and no socket, so an unstable test of the core is a failure all the same. Arguments are for pytest.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
CORE = ("tests/wire/", "tests/session/", "tests/relay/", "tests/broker/")
MOST = 10
"""More failures than these are no accident: nothing is run again."""


def verdict(failed: list[str], again: list[str]) -> tuple[list[str], bool]:
    """Return which tests are unstable, of those that `failed` and those of them that failed `again`, and whether the
    run passes.
    """
    unstable = [each for each in failed if each not in again]
    return unstable, not again and not any(each.startswith(CORE) for each in unstable)


def main(arguments: list[str]) -> int:
    """Run them again. Return the exit code."""
    try:
        failed = sorted(json.loads(FAILED.read_text(encoding="utf-8")))
    except FileNotFoundError:
        failed = []
    if not 0 < len(failed) <= MOST:
        print(f"{len(failed)} tests failed: none is run again")
        return 1
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    again = [each for each in failed if subprocess.run([*pytest, each], cwd=ROOT, check=False).returncode]
    unstable, passed = verdict(failed, again)
    for each in again:
        print(f"failed twice: {each}")
    for each in unstable:
        print(f"unstable: {each}")
    print(f"{len(unstable)} passed, {len(again)} failed")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
