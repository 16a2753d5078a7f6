"""Writing to topics: batches, streams, and the options of both."""
