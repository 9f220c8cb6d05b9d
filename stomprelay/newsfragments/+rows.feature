Deliveries that await their ACK cost a third of the processor time where nothing but their names has to be known, and
decoding frame by frame a quarter less.
