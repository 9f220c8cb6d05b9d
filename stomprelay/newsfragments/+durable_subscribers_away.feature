`stomprelay move check` names durable subscribers that are not connected, because no session of theirs follows a move.
