"""A longer, seeded run: sessions through the relay while their brokers are killed, frozen, cut off and stopped."""
