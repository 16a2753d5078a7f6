"""RocketMQ's bytes. No sockets, no clock, no locks."""
