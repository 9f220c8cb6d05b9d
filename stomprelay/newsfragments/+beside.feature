`stomprelay-pipeline` makes `traffic` while messages are matched, and the tables made of messages two at a time, in large batches, too: there is work for all cores while Spark plans.
