"""Settings: what they are, how they are read, and what RocketMQ calls them."""
