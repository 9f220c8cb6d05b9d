"""Health, metrics, a status page and requests to pause brokers, over HTTP."""
