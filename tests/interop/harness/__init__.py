"""What the interop tests share: toolchains, servers, client programs, and an independent observer."""
