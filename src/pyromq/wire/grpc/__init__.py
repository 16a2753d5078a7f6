"""RocketMQ 5's gRPC protocol: messages, codes, and what becomes of a message in both directions."""
