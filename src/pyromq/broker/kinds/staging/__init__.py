"""Staged sends: messages of a batch that are stored where nobody reads them, and published together."""
