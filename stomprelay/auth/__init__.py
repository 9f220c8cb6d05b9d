"""Who may come in: what finds out who a client is, without a clock and without a socket.

`settings` is what `[auth.NAME]` says, and which method decides; `lines` reads files of one entry a line, `users` is the
users file and its passcodes, `keys` are the keys of tokens, `tokens` the tokens; `attempts` slows addresses down that
fail. The service does the asking: in threads where it takes long, and over HTTP.
"""
