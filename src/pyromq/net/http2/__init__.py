"""HTTP/2 and gRPC's framing, without messages: sessions without I/O, and links that belong to a server.

It needs the extra `pyromq[grpc]`; nothing outside imports it before gRPC is wanted.
"""
