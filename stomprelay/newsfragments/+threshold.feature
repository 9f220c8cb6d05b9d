`stomprelay-pipeline report --threshold receipt_p99=200ms` names what is beyond it first and ends with exit status 3, so that cron can act on it.
