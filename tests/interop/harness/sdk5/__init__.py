"""The gRPC SDKs of 5.x, the brokers that they talk to, and what is said between them."""
