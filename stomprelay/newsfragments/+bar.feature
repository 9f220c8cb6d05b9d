On a terminal the commands of `stomprelay-pipeline` show a progress bar, with rate and remaining time, for everything that takes longer than two seconds.
