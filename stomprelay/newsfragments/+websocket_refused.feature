A client that is refused for the limits, or while the relay is drained, is told so over WebSocket where it speaks that: an ERROR, and close code 1013.
