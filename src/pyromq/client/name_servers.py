"""The name servers a client may ask: a random first one, kept until it fails, then the next."""

import random
from collections.abc import Sequence

from pyromq.client import environment
from pyromq.errors import ConfigError, ConnectFailed
from pyromq.net.address import split_address


class NameServers:
    """The addresses, and which one is asked now."""

    def __init__(self, addresses: Sequence[str], *, start: int | None = None) -> None:
        self.addresses = tuple(addresses)
        self._current = (random.randrange(1 << 31) if start is None else start) % len(self.addresses)

    @property
    def current(self) -> str:
        """The address to ask."""
        return self.addresses[self._current]

    def in_order(self) -> tuple[str, ...]:
        """Return all addresses, the current one first."""
        return self.addresses[self._current :] + self.addresses[: self._current]

    def use(self, address: str) -> None:
        """Stay with an address that answered."""
        self._current = self.addresses.index(address)

    def __str__(self) -> str:
        return ", ".join(self.addresses)


def name_server_addresses(name_server: str | None) -> tuple[str, ...]:
    """Return the addresses of «host:port;host:port»; without an argument, those of NAMESRV_ADDR."""
    source = "name_server" if name_server else environment.NAME_SERVERS
    text = name_server or environment.name_servers()
    addresses = tuple(
        dict.fromkeys(part.strip() for part in text.replace(",", ";").split(";") if part.strip())
    )
    if not addresses:
        raise ConfigError(
            "no name server is known: pass name_server='127.0.0.1:9876', or set the environment variable "
            f"{environment.NAME_SERVERS}"
        )
    for address in addresses:
        try:
            split_address(address)
        except ConnectFailed as error:
            raise ConfigError(f"{source}: {error}") from error
    return addresses
