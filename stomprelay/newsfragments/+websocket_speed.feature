Where the relay is compiled, messages over WebSocket are found, unmasked and checked in C.
