"""Masters and slaves: the log and the tables, copied."""
