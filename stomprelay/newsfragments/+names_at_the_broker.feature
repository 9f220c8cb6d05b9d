`map.names` of an upstream says how the broker spells destinations: exact names, prefixes, and patterns with parts, both ways.
