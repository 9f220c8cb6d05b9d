A client that comes over WebSocket and is one too many, or comes while the relay is drained, is told so: it gets its WebSocket, an ERROR in it, and close code 1013.
