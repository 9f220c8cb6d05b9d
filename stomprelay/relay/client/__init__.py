"""A client: `opening` before its session starts, `shutdown` the end of its session, `turns` its unread bytes, its pace
and its turns.
"""
