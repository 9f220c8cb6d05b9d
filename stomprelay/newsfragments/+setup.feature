After an outage 2,000 sessions a second come back to a broker by default (`reconnect_rate`), not 500: 1,000 sessions of a broker that is killed go on at another one within a second.
