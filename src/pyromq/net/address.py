"""Addresses as RocketMQ writes them: `host:port`, and a peer's address in the form that records carry."""

import ipaddress
from typing import Any

from pyromq.errors import ConnectFailed
from pyromq.wire.record import encode_host


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port` or `[v6]:port`; raise ConnectFailed, which says what is wrong."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConnectFailed(f"{address!r} is not an address; write host:port, such as 127.0.0.1:9876")
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    """Return `host:port`; a v6 address gets its brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_of(peername: Any) -> tuple[str, bytes]:
    """Return a socket's peer name as `host:port` and as the 8 or 20 host bytes of a record."""
    if not isinstance(peername, tuple) or len(peername) < 2:
        # The peer left between accept and now; the connection ends before anybody can use this.
        return "unknown:0", bytes(8)
    address = ipaddress.ip_address(peername[0].partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    port = int(peername[1])
    return join_address(str(address), port), encode_host(str(address), port)
