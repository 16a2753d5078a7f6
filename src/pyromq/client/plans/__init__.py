"""What a client does, as generators of calls: no sockets, no threads, no loop."""
