"""Access control: accounts in YAML files as RocketMQ 4.9's, and the permission that each request needs."""
