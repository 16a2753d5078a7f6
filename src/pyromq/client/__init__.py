"""The client: what it does is a plan without I/O, carried out by a blocking or an asyncio driver."""
