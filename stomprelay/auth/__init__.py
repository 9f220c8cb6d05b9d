"""The identification of clients, without a clock and without a socket.

`settings` is the table `[auth.NAME]`, and which method decides; `lines` reads files of one entry a line, `users` is the
users file and its passcodes, `keys` are the keys of tokens, `tokens` the tokens; `attempts` slows down addresses with
failed attempts. The service runs the checks: slow ones in threads, and requests over HTTP.
"""
