"""Load for any RocketMQ-compatible broker, and what came of it."""
