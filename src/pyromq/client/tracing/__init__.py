"""Message traces, in the format of RocketMQ 4.9.8."""
