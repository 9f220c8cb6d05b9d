"""One client joined to its brokers, without I/O: inputs come with the time, effects go back.

relay       `Relay`, what the service holds of a client; until that is let in it answers alone
inputs      what happens to a session, as values
client/     `Opening`, until the client is in; `Shutdown`, `Turns`, `Pace` of its `ClientConnection` (in `relay`)
single      `Single`, the flow with one broker at a time
fanout/     `Fanout`, the flow with several: copies, routes, quorums
link/       `Link`, a session's connection to one group of brokers; `Handshake`, `Schedule`, `Probe`
resend/     `Resender`: a client's frames, kept in `Unconfirmed` so that they can be sent to the next broker
bridge      `Bridge`: frames from one version to another, by steps; which may pass together
sample      `Sample`: how long the client and the broker of one session wait for RECEIPT and ACK
counting    `DestinationCounter`: what passes, by destination
guard       `Guard`: a client's frames, judged by rules
effects     `Open`, the `Outbox` that every effect goes to, the notes about a session, `Joiner` of frames into one write
model/      what is configured and known: `Listener`, `Route`, `Upstream`, `Group`, `Broker`, `Health`, `Profile`

Each imports only what stands below it; `[tool.importlinter]` in pyproject.toml holds them to it.
"""
