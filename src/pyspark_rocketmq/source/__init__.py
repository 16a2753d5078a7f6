"""Reading a topic: batches, streams, and the options of both."""
