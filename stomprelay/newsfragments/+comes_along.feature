`stomprelay config` prints the configuration that has every setting; with a name another one of `config/`, or a unit of `systemd/`. An installed relay has these files with it.
