`stomprelay sessions`, `GET /sessions` and the dashboard show for which limit a client waits that sends too fast.
