"""The services of RocketMQ 5's gRPC protocol that consumers call."""
