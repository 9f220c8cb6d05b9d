"""The files that come with the relay: configurations, units of systemd, alerts for Prometheus, a dashboard for Grafana.

They stand in the repository's folders `config` and `systemd`; `setup.py` copies them into the package when it is built,
and no other copy is kept.
"""

from pathlib import Path
from typing import Final

PATTERNS: Final = ("config/*.toml", "config/grafana/*", "config/prometheus/*", "systemd/*")
"""Which files of the repository come with the relay."""
FOLDER: Final = "share"
"""The folder of the package into which they are copied, each by its path in the repository."""
_PACKAGE: Final = Path(__file__).resolve().parent


def files() -> dict[str, Path]:
    """Return where each file is, by its name: in the package, or in the repository that the relay is run from."""
    copied = _PACKAGE / FOLDER
    root = copied if copied.is_dir() else _PACKAGE.parent
    return {path.name: path for pattern in PATTERNS for path in sorted(root.glob(pattern))}
