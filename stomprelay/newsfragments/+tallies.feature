The relay counts frames, bytes and failovers by broker, and SENDs and MESSAGEs by destination, and measures how long clients wait for
CONNECTED and for RECEIPTs, brokers for ACKs, and sessions for their next broker. `stomprelay sessions` says where a client sends to and what was
sent to it and to its brokers; with `--rates`, or sorted by `frames_rate` or `bytes_rate`, it says what passes in a second. In a JSON log the line of a session's end
has login, version, brokers and all counts as fields.
