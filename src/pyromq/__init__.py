"""RocketMQ in Python."""
