`stomprelay move compare` says when the new upstream is a list of brokers, and from which of them it took copies: those in queues of other brokers count as missing.
