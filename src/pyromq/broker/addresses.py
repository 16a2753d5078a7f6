"""The addresses of a broker: where it listens, and what it tells clients and slaves."""

import asyncio
import socket
from dataclasses import dataclass

from pyromq.config.settings import BrokerSettings
from pyromq.errors import ConfigError
from pyromq.net.address import join_address
from pyromq.wire.record import encode_host

_ALL_INTERFACES = ("0.0.0.0", "::", "")
#: Reserved for documentation, so nothing is there; only the route to it is asked for.
_SOMEWHERE_ELSE = ("192.0.2.1", 9)


@dataclass(frozen=True, slots=True)
class BrokerAddresses:
    """What a broker is reached by; `store_host` is the form that records and message ids carry."""

    ip: str
    port: int
    ha: str
    store_host: bytes

    @property
    def advertised(self) -> str:
        """What name servers hand to clients."""
        return join_address(self.ip, self.port)


async def advertise(broker: BrokerSettings, port: int, ha_port: int) -> BrokerAddresses:
    """Work out the addresses of a broker that listens on `port`, and for slaves on another."""
    ip = broker.broker_ip1 or _own_ip(broker.bind_address)
    return BrokerAddresses(
        ip=ip,
        port=port,
        ha=join_address(broker.broker_ip2 or ip, ha_port),
        store_host=await _host_bytes(ip, port),
    )


def _own_ip(bind_address: str) -> str:
    """Return the address listened on, or this machine's own where that is all of them."""
    if bind_address not in _ALL_INTERFACES:
        return bind_address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # A datagram socket sends nothing when it connects; it only learns the way out.
            probe.connect(_SOMEWHERE_ELSE)
        except OSError:
            return "127.0.0.1"
        own: str = probe.getsockname()[0]
        return own


async def _host_bytes(host: str, port: int) -> bytes:
    try:
        return encode_host(host, port)
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"brokerIP1: no address is known for {host!r}; write an IP address") from error
    return encode_host(str(found[0][4][0]), port)
