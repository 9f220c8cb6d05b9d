"""One client joined to its brokers, without I/O. Each input comes with its time and returns effects.

relay       `Relay`, what the service has for each client; before the session starts, it has only an `Opening`
inputs      what happens to a session, as values
client/     `Opening`, before the session starts; `Shutdown`, `Turns`, `Pace` of its `ClientConnection` (in `relay`)
single      `Single`, the flow with one broker at a time
fanout/     `Fanout`, the flow with several brokers: copies, routes, quorums
link/       `Link`, a session's connection to one group of brokers; `Handshake`, `Schedule`, `Probe`
resend/     `Resender`: sends a client's frames, and keeps them in `Unconfirmed` for the next broker
bridge      `Bridge`: translates frames from one version to another, by steps; which frames may pass in runs
sample      `Sample`: how long the client and the broker of one session wait for RECEIPT and ACK
counting    `DestinationCounter`: counts frames by destination
guard       `Guard`: judges a client's frames by rules
effects     `Open`, the `Outbox` of all effects, the notes about a session, `Joiner` of frames into one write
model/      what is configured and known: `Listener`, `Route`, `Upstream`, `Group`, `Broker`, `Health`, `Profile`

Each module imports only modules below it in this list; `[tool.importlinter]` in pyproject.toml checks this.
"""
