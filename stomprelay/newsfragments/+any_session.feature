`stomprelay sessions --filter any=GLOB` and `GET /sessions?any=GLOB` look for a session by any of its values, in whatever case; over HTTP `sort=-age` is the order of `sort=age` the other way round.
