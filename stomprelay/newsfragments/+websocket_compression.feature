`[listener.NAME.web] compression = true`: messages over WebSocket are compressed with clients that offer it (`permessage-deflate`), and a message that is inflated beyond `message` is refused.
