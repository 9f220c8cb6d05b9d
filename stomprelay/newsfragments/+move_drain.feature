`stomprelay move drain` takes the messages that wait in queues of one broker, and gives them to another broker, of any product. A message is acknowledged only when the other broker has confirmed it.
