`systemd/stomprelay@.service`: several relays on one machine, each with a configuration of its own, `/etc/stomprelay/stomprelay@NAME.toml`.
