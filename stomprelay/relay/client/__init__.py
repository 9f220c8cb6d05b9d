"""A client: `opening` before its session starts; `shutdown` for the end of its session; `turns` for its unread bytes,
its pace and its turns.
"""
