With `renew = "/relay/token"` in `[auth.NAME.token]` a client shows a new token before its old one expires, by a SEND to that destination, and its session goes on.
