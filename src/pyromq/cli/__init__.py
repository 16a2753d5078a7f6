"""The `pyromq` program."""
