The journal costs less processor time: what waits to be written stands in huge pages of memory throughout, of which fewer have to be looked up and handed to the disk.
