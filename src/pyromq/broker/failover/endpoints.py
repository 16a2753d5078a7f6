"""The addresses of etcd, as the setting `failover` has them.

etcd://HOST:2379[,HOST:2379…]          plain
etcds://HOST[,HOST…][?ca=…&cert=…&key=…]   TLS, with files in PEM; without `ca` the system's authorities
etcd://USER:PASSWORD@HOST…              as an etcd user
"""

import ssl
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from pyromq.errors import ConfigError

PORT = 2379
_FORM = "write etcd://HOST:2379, and several joined by commas"
_FILES = ("ca", "cert", "key")


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The members of an etcd cluster, and how to speak to them; `shown` has no password."""

    urls: tuple[str, ...]
    user: str | None = None
    password: str = ""
    tls: ssl.SSLContext | None = None

    @property
    def shown(self) -> str:
        """The members, for a person."""
        return ",".join(url.partition("://")[2] for url in self.urls)


def read_endpoints(text: str) -> Endpoints:
    """Read the setting. Raises ConfigError, which says what is wrong with it."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in ("etcd", "etcds"):
        # Not what it says: a password may stand there.
        raise ConfigError(f"failover: {_FORM}")
    rest, _, query = rest.partition("?")
    credentials, _, hosts = rest.rpartition("@")
    user, _, password = credentials.partition(":")
    is_tls = scheme == "etcds"
    files = _read_files(query, is_tls=is_tls)
    members = [_member(host) for host in hosts.rstrip("/").split(",") if host]
    if not members:
        raise ConfigError(f"failover={scheme}://: no host; {_FORM}")
    return Endpoints(
        urls=tuple(f"{'https' if is_tls else 'http'}://{member}" for member in members),
        user=unquote(user) or None,
        password=unquote(password),
        tls=_context(files) if is_tls else None,
    )


def _member(text: str) -> str:
    host, colon, port = text.strip().rpartition(":")
    if not colon or (text.endswith("]") and ":" in host):
        host, port = text.strip(), str(PORT)
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(f"failover: {text!r} is not HOST:PORT; {_FORM}")
    return f"{host}:{port}"


def _read_files(query: str, *, is_tls: bool) -> dict[str, str]:
    files = dict(parse_qsl(query))
    if unknown := [name for name in files if name not in _FILES]:
        raise ConfigError(f"failover: {', '.join(unknown)}: known behind the question mark are ca, cert, key")
    if files and not is_tls:
        raise ConfigError("failover: ca, cert and key are for TLS: write etcds:// instead of etcd://")
    return files


def _context(files: dict[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=files.get("ca"))
        if "cert" in files:
            context.load_cert_chain(files["cert"], files.get("key"))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"failover: a file for TLS does not read: {error}") from error
    return context
