"""The client's part: pulled messages, and the load generator of `pyromq bench`."""
