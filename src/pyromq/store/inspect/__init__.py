"""Looking at a store's files without touching them: `verify` and `dump`."""
