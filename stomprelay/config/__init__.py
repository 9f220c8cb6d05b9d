"""From TOML and the command line to the objects that run; each mistake is a `ConfigError` that names its key.

`settings` one row for each key; `config` the whole; `listener` (with routes and rules) and `upstream` one table each;
`auth` who may come in; `admin` the keys of `admin` and `metrics`; `table` a value's place in the file, `values` what it
may be; `uri` an upstream's URI, its options and what it means, `address` one broker, and Twisted's endpoint
strings; `summary` the whole in words; `change` where it is from, and from one to another while the relay runs.
"""

from stomprelay.config.config import OPTIONS, Config, default, load, load_admin, overridden, read_text, share
from stomprelay.config.table import ConfigError

__all__ = [
    "OPTIONS",
    "Config",
    "ConfigError",
    "default",
    "load",
    "load_admin",
    "overridden",
    "read_text",
    "share",
]
