A batch read of `format("stomp")` takes `readId`: all that load under one name, such as a job that is run again, have the same rows.
