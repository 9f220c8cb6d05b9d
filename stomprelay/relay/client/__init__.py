"""A client: `opening` until it is let in, `shutdown` its end, `turns` its unread bytes, their pace and their turn."""
