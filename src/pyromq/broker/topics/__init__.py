"""Topics: their table, the rules for their names, and how a message enters the store."""
