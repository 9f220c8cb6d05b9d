The journal costs less: its blocks are made by compiled code as frames come, and the thread that writes them only writes.
