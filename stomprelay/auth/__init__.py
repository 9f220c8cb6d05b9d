"""The identification of clients. The code needs no clock and no socket.

`settings` has the table `[auth.NAME]`, and chooses the method. `lines` reads files with one entry in each line. `users`
has users and their passcodes. `tokens` has tokens and their keys. `attempts` slows down clients that were refused. The
service runs slow checks in threads.
"""
