A new policy, `together`, keeps all sessions of a `failover:(...)` list on one broker, across workers, so that producers and
consumers meet whatever dies and comes back; it is the default for lists that do not say `randomize`, `priorityBackup` or
weights. `connected = true` says that brokers pass messages on to each other; where sessions of others may be parted,
`stomprelay check` and the log warn.
