"""Pipelines from a topic through SQL to topics and tables: described in a file, checked, and run."""
