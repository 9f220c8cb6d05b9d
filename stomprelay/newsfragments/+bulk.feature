The journal costs less where much passes: what is recorded of a frame is copied once, from where it was received to where it is written from, and a chunk is one record however many frames it has.
