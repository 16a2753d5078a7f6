"""Name servers: their addresses in one text, or told by an HTTP address (RocketMQ 4.9.8: TopAddressing).

Brokers and clients ask it alike: when it is needed first, ten seconds after the start, and then every two
minutes. It answers with one line, `host:port;host:port`.
"""

from typing import Final

from pyromq.errors import ConfigError, ConnectFailed
from pyromq.net.address import split_address

#: When an HTTP address is asked again: after the start, and then.
FIRST_REFRESH_MS: Final = 10_000
REFRESH_MS: Final = 120_000
#: The port of an HTTP address whose setting names none.
DOMAIN_PORT: Final = 8080


def domain_url(domain: str, subgroup: str) -> str:
    """Return the HTTP address of a domain, such as http://jmenv.tbsite.net:8080/rocketmq/nsaddr."""
    host = domain if ":" in domain else f"{domain}:{DOMAIN_PORT}"
    return f"http://{host}/rocketmq/{subgroup}"


def read_addresses(text: bytes, url: str) -> tuple[str, ...]:
    """Return the addresses in the first line of what an HTTP address said; raise ConnectFailed if none is."""
    lines = text.decode("utf-8", "replace").strip().splitlines()
    try:
        addresses = split_addresses(lines[0] if lines else "", url)
    except ConfigError as error:
        raise ConnectFailed(str(error)) from error
    if not addresses:
        raise ConnectFailed(f"{url} names no name server")
    return addresses


def split_addresses(text: str, source: str) -> tuple[str, ...]:
    """Return the addresses of `host:port;host:port`, each once; raise ConfigError, naming the source."""
    addresses = tuple(
        dict.fromkeys(part.strip() for part in text.replace(",", ";").split(";") if part.strip())
    )
    for address in addresses:
        try:
            split_address(address)
        except ConnectFailed as error:
            raise ConfigError(f"{source}: {error}") from error
    return addresses
