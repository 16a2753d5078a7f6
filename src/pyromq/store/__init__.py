"""Messages on disk, in RocketMQ's formats: synchronous, one writer, and without any network."""
