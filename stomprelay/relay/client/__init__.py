"""What a client has: `opening` until it is in (CONNECT, and who it is); `shutdown` how its session ends; `turns` what
it sent and nobody has read yet, how fast that may go on, and whose frames go on now.
"""
