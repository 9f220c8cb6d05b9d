`stomprelay move drain` removes copies of the phase `shadow`, and does not bring them to the next broker.
