"""TOML and the command line to the objects that run, and an error that names the key for whatever is wrong.

`config` the whole, `listener` and `upstream` one table each, `leg` what they share, `table` where a value stands,
`values` what it may be, `address` and `endpoint` where brokers are and where clients come in, `summary` the whole in
words.
"""

from stomprelay.config.config import Config, default, load, overridden
from stomprelay.config.table import ConfigError

__all__ = ["Config", "ConfigError", "default", "load", "overridden"]
