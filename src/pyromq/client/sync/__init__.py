"""The blocking faces of the client."""
