"""The command `pyromq torture`."""
