"""The files that come with the relay: configurations, units of systemd, alerts for Prometheus, a dashboard for Grafana.

They are in the repository's folders `config` and `systemd`. When the package is built, `setup.py` copies them into it.
There is no other copy.
"""

from pathlib import Path
from typing import Final

PATTERNS: Final = ("config/*.toml", "config/grafana/*", "config/prometheus/*", "systemd/*")
"""The files of the repository that come with the relay."""
FOLDER: Final = "share"
"""The folder of the package to which these files are copied, each with its path in the repository."""
_PACKAGE: Final = Path(__file__).resolve().parent


def files() -> dict[str, Path]:
    """Return the path of each file by its name. It is in the package, or in the repository if the relay runs there."""
    copied = _PACKAGE / FOLDER
    root = copied if copied.is_dir() else _PACKAGE.parent
    return {path.name: path for pattern in PATTERNS for path in sorted(root.glob(pattern))}
