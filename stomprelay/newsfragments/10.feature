A client or broker that sends many small frames at once gives way to others after a turn's worth of them.
