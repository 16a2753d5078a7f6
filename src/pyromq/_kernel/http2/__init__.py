"""HTTP/2 for gRPC, on nghttp2."""
