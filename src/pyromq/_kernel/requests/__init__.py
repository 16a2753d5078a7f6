"""The broker's part: received sends and pulls, and the bytes of their answers."""
