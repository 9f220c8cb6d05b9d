"""What is configured and what is known of it: brokers, groups, upstreams, listeners; how they are; what is counted."""
