"""TLS contexts from settings, and telling a TLS connection from a plain one by its first byte.

RocketMQ speaks both on one port: a TLS handshake begins with the byte 0x16, which as a frame's first byte
would announce more than 300 MiB. The byte is looked at without being taken from the socket, so whichever
protocol follows reads the connection from its beginning.
"""

import asyncio
import socket
import ssl

from pyromq.config.choices import TlsClientAuth, TlsServerMode
from pyromq.config.settings import NetSettings
from pyromq.errors import ConfigError
from pyromq.net.link import TLS_HANDSHAKE_BYTE

_VERIFY_MODES = {
    TlsClientAuth.NONE: ssl.CERT_NONE,
    TlsClientAuth.OPTIONAL: ssl.CERT_OPTIONAL,
    TlsClientAuth.REQUIRE: ssl.CERT_REQUIRED,
}


def server_context(settings: NetSettings) -> ssl.SSLContext | None:
    """Return the context for connections that come in, or None when TLS is off or has no certificate.

    Raises ConfigError when TLS is required without a certificate, or a file does not read.
    """
    if settings.tls_server_mode == TlsServerMode.DISABLED:
        return None
    if not settings.tls_server_cert_path:
        if settings.tls_server_mode == TlsServerMode.ENFORCING:
            raise ConfigError(
                "tlsServerMode is enforcing, but there is no certificate; "
                "set tlsServerCertPath and tlsServerKeyPath"
            )
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_chain(
        context,
        cert_path=settings.tls_server_cert_path,
        key_path=settings.tls_server_key_path,
        password=settings.tls_server_key_password,
    )
    if settings.tls_server_auth_client:
        _load_authorities(context, settings.tls_server_trust_cert_path)
        context.verify_mode = _VERIFY_MODES[TlsClientAuth(settings.tls_server_need_client_auth)]
    return context


def client_context(settings: NetSettings) -> ssl.SSLContext | None:
    """Return the context for connections to other servers, or None when they are plain."""
    if not settings.use_tls:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # RocketMQ's certificates are made for clusters, not for host names; its clients do not check names.
    context.check_hostname = False
    if settings.tls_client_auth_server:
        _load_authorities(context, settings.tls_client_trust_cert_path)
    else:
        context.verify_mode = ssl.CERT_NONE
    if settings.tls_client_cert_path:
        _load_chain(
            context,
            cert_path=settings.tls_client_cert_path,
            key_path=settings.tls_client_key_path,
            password=settings.tls_client_key_password,
        )
    return context


async def wants_tls(connection: socket.socket) -> bool:
    """Wait for a connection's first byte and return whether it begins a TLS handshake; takes nothing.

    A connection that ends before its first byte is a plain one.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            first = connection.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            readable: asyncio.Future[None] = loop.create_future()
            loop.add_reader(connection, _wake, readable)
            try:
                await readable
            finally:
                loop.remove_reader(connection)
            continue
        return first == bytes((TLS_HANDSHAKE_BYTE,))


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _load_chain(context: ssl.SSLContext, *, cert_path: str, key_path: str, password: str) -> None:
    try:
        context.load_cert_chain(cert_path, key_path or None, password)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the TLS certificate {cert_path} or its key {key_path} does not load: {error}"
        ) from error


def _load_authorities(context: ssl.SSLContext, path: str) -> None:
    try:
        if path:
            context.load_verify_locations(path)
        else:
            context.load_default_certs()
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the TLS authorities {path} do not load: {error}") from error
