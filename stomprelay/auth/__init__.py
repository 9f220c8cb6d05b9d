"""The identification of clients, without a clock and a socket.

`settings` the table `[auth.NAME]` and the choice of a method; `lines` files, `users` users and passcodes, `tokens`
tokens and their keys; `attempts` slows down failures. The service runs slow checks in threads.
"""
