"""Plans of a client's operations, as generators of calls: no sockets, no threads, no loop."""
