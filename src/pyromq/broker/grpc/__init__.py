"""RocketMQ 5's gRPC services, in the broker's own process."""
