"""What a client has: `opening` it until it is in (CONNECT, and who it is); `shutdown` how its session ends;
`turns` what it sent and is not read yet, how fast that may go on, and which session's frames go on now.
"""
