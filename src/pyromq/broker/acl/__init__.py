"""Who may do what: accounts in YAML files as RocketMQ 4.9's, and what each request needs."""
