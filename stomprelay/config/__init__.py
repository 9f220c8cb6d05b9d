"""TOML and the command line to the objects that run, and an error that names the key for whatever is wrong.

`config` the whole; `listener`, `upstream`, `route` and `journal` one table each, `leg` what two of them share; `table`
where a value stands, `values` what it may be; `location` what an upstream's URI means, `uri` its form, `option` its
options, `address` one broker; `endpoint` where clients come in; `summary` the whole in words.
"""

from stomprelay.config.config import Config, admin, default, load, overridden
from stomprelay.config.table import ConfigError

__all__ = ["Config", "ConfigError", "admin", "default", "load", "overridden"]
