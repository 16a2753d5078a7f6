"""Commands that serve: `up`, `namesrv`, `broker`, `dashboard`."""
