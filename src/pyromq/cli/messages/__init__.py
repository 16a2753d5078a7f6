"""Commands for messages: `produce`, `consume`, `message`, `delayed`, `dlq`."""
