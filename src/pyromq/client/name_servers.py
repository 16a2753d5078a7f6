"""The name servers a client may ask: a random first one, kept until it fails, then the next.

Their addresses are given, or an HTTP address tells them: `net/discovery.py`.
"""

import random
from collections.abc import Sequence
from typing import Final

from pyromq.client import environment
from pyromq.config.settings import ClientSettings
from pyromq.errors import NoNameServerKnown
from pyromq.net.discovery import domain_url, split_addresses

_URL_HEADS: Final = ("http://", "https://")


class NameServers:
    """The addresses, and which one is asked now; with an HTTP address that gives them, none at first."""

    def __init__(self, addresses: Sequence[str], *, start: int | None = None) -> None:
        is_url = len(addresses) == 1 and addresses[0].startswith(_URL_HEADS)
        #: The HTTP address that tells the name servers, if one does.
        self.source: str | None = addresses[0] if is_url else None
        self.addresses: tuple[str, ...] = () if is_url else tuple(addresses)
        self._start = random.randrange(1 << 31) if start is None else start
        self._current = self._first()

    @property
    def current(self) -> str:
        """The address to ask."""
        order = self.in_order()
        return order[0] if order else str(self)

    def in_order(self) -> tuple[str, ...]:
        """Return all addresses, the current one first."""
        addresses, current = self.addresses, self._current
        return addresses[current:] + addresses[:current]

    def use(self, address: str) -> None:
        """Stay with an address that answered."""
        # It may have been replaced meanwhile.
        if address in self.addresses:
            self._current = self.addresses.index(address)

    def replace(self, addresses: Sequence[str]) -> bool:
        """Take other addresses and return whether they differ; the current one stays if it is among them."""
        new = tuple(addresses)
        if set(new) == set(self.addresses):
            return False
        current = self.current
        # Another thread may look between the two; slices take an index that is too large.
        self.addresses = new
        self._current = new.index(current) if current in new else self._first()
        return True

    def _first(self) -> int:
        return self._start % len(self.addresses) if self.addresses else 0

    def __str__(self) -> str:
        return ", ".join(self.addresses) or f"none yet of {self.source}"


def name_server_addresses(name_server: str | None, settings: ClientSettings | None = None) -> tuple[str, ...]:
    """Return the addresses of `host:port;host:port`, or one HTTP address that gives them.

    They are the argument's; else those of the setting `namesrv_addr`, of the environment's NAMESRV_ADDR, or
    of the HTTP address that the setting `namesrv_domain` makes.
    """
    settings = settings or ClientSettings()
    for source, text in (
        ("name_server", name_server or ""),
        ("namesrv_addr", settings.namesrv_addr),
        (environment.NAME_SERVERS, environment.name_servers()),
    ):
        if text.strip().startswith(_URL_HEADS):
            return (source_url(text.strip(), settings),)
        addresses = split_addresses(text, source)
        if addresses:
            return addresses
    if settings.namesrv_domain:
        url = domain_url(settings.namesrv_domain, settings.namesrv_domain_subgroup)
        return (source_url(url, settings),)
    raise NoNameServerKnown(
        "no name server is known: pass name_server='127.0.0.1:9876', or set the environment variable "
        f"{environment.NAME_SERVERS}"
    )


def source_url(url: str, settings: ClientSettings) -> str:
    """Return an HTTP address with the client's unit, if it has one."""
    return f"{url}-{settings.unit_name}?nofix=1" if settings.unit_name else url
