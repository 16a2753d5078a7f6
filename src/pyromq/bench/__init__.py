"""Load for any RocketMQ-compatible broker, and its measurement."""
