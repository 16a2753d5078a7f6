"""HTTP/2 and gRPC's framing, without messages: sessions without I/O, and links that belong to a server."""
