"""Makes the objects that run from TOML and the command line. Each mistake is a `ConfigError` that names its key.

`settings` has one row for each key. `config` reads the whole file; `listener` (with routes and rules), `upstream`,
`auth` and `admin` read the tables of these names. `table` is a table that knows its place in the file, `values` has the
readers of values. `uri` reads an upstream's URI, `address` reads a broker's address and Twisted's endpoint strings.
`summary` describes a configuration in words. `change` compares a new configuration with the running one.
"""

from stomprelay.config.config import (
    OPTIONS,
    Config,
    default,
    load,
    load_admin,
    load_upstreams,
    overridden,
    read_text,
    share,
    upstream_at,
)
from stomprelay.config.table import ConfigError

__all__ = [
    "OPTIONS",
    "Config",
    "ConfigError",
    "default",
    "load",
    "load_admin",
    "load_upstreams",
    "overridden",
    "read_text",
    "share",
    "upstream_at",
]
