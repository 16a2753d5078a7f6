"""Spark's part: messages as Arrow's columns, and Arrow's columns as messages."""
