Grafana's dashboard has the moves of destinations: the phase of each, how sessions follow, copies, and what failed.
