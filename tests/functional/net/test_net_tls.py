"""TLS and plain connections on one port."""

import asyncio
import contextlib
import ssl

import pytest
import trustme

from pyromq.clock import SystemClock
from pyromq.config.choices import TlsServerMode
from pyromq.config.settings import NetSettings
from pyromq.errors import ConfigError, ConnectFailed, ConnectionLost, TlsFailed
from pyromq.net.blocking import BlockingLinks
from pyromq.net.links import Links
from pyromq.net.routes import Answer, RequestTable, Route
from pyromq.net.server import Server
from pyromq.net.tls import client_context, server_context
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command, encode

ECHO = 10


class Certificates:
    def __init__(self, folder):
        authority = trustme.CA()
        self.authority_path = str(folder / "ca.pem")
        authority.cert_pem.write_to_path(self.authority_path)
        for name in ("server", "client"):
            issued = authority.issue_cert("localhost", "127.0.0.1")
            issued.private_key_pem.write_to_path(str(folder / f"{name}.key"))
            issued.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
        self.server = {
            "tls_server_cert_path": str(folder / "server.pem"),
            "tls_server_key_path": str(folder / "server.key"),
        }
        self.client = {
            "tls_client_cert_path": str(folder / "client.pem"),
            "tls_client_key_path": str(folder / "client.key"),
        }
        self.trusting = {
            "use_tls": True,
            "tls_client_auth_server": True,
            "tls_client_trust_cert_path": self.authority_path,
        }


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("tls"))


@contextlib.asynccontextmanager
async def serving(**settings):
    server = Server(
        RequestTable([Route(ECHO, lambda request: Answer(body=request.body))]),
        NetSettings(**settings),
        clock=SystemClock(),
        name="test",
    )
    server.host, server.port = await server.start("127.0.0.1", 0)
    server.address = f"{server.host}:{server.port}"
    try:
        yield server
    finally:
        await server.close()


async def ask(server, **settings):
    links = Links(NetSettings(**settings))
    try:
        return await links.request(server.address, Command(ECHO, body=b"x" * 100_000), 5)
    finally:
        await links.close()


async def test_one_port_takes_plain_and_tls(certificates):
    async with serving(**certificates.server) as server:
        plain = await ask(server)
        secret = await ask(server, **certificates.trusting)

    assert len(plain.body) == len(secret.body) == 100_000


async def test_the_blocking_links_speak_tls_too(certificates):
    async with serving(**certificates.server) as server:
        links = BlockingLinks(NetSettings(**certificates.trusting))
        answers = [
            await asyncio.to_thread(links.request, server.address, Command(ECHO, body=b"x"), 5)
            for _ in range(2)
        ]
        links.close()

    assert [answer.body for answer in answers] == [b"x", b"x"]


async def test_enforcing_takes_tls_only(certificates):
    async with serving(tls_server_mode=TlsServerMode.ENFORCING, **certificates.server) as server:
        secret = await ask(server, use_tls=True)
        with pytest.raises(TlsFailed):
            await ask(server)

    assert secret.code == 0


async def test_disabled_takes_plain_only(certificates):
    async with serving(tls_server_mode=TlsServerMode.DISABLED, **certificates.server) as server:
        plain = await ask(server)
        with pytest.raises(ConnectFailed):
            await ask(server, use_tls=True)

    assert plain.code == 0


async def test_a_client_that_checks_refuses_a_stranger(certificates, tmp_path):
    strangers = Certificates(tmp_path)
    async with serving(**certificates.server) as server:
        with pytest.raises(ConnectFailed):
            await ask(server, **strangers.trusting)


async def test_a_server_may_ask_for_the_clients_certificate(certificates):
    asking = {
        "tls_server_auth_client": True,
        "tls_server_need_client_auth": "require",
        "tls_server_trust_cert_path": certificates.authority_path,
    }
    async with serving(**certificates.server, **asking) as server:
        known = await ask(server, **certificates.trusting, **certificates.client)
        with pytest.raises((ConnectFailed, ConnectionLost)):
            await ask(server, **certificates.trusting)

    assert known.code == 0


async def test_a_connection_that_says_nothing_does_not_keep_a_server_from_closing(certificates):
    async with serving(**certificates.server) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        await asyncio.wait_for(server.close(), 5)

        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_a_handshake_that_fails_is_one_log_line(certificates, caplog):
    async with serving(**certificates.server) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(b"\x16" + b"nonsense" * 10)
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        writer.close()
        await aeventually(lambda: [r for r in caplog.records if r.name == "pyromq.net"])
        other = await ask(server)

    assert other.code == 0
    assert len([r for r in caplog.records if r.name == "pyromq.net"]) == 1


async def test_a_plain_connection_may_begin_in_pieces(certificates):
    async with serving(**certificates.server) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        frame = encode(Command(ECHO, body=b"x"))
        writer.write(frame[:1])
        await writer.drain()
        await aeventually(lambda: server.links)
        writer.write(frame[1:])

        assert (await reader.read(1000)).endswith(b"x")
        writer.close()
        await writer.wait_closed()


def test_enforcing_without_a_certificate_does_not_start():
    with pytest.raises(ConfigError, match="tlsServerCertPath"):
        server_context(NetSettings(tls_server_mode=TlsServerMode.ENFORCING))


def test_a_certificate_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"/no/such\.pem"):
        server_context(NetSettings(tls_server_cert_path="/no/such.pem", tls_server_key_path="/no/such.key"))
    with pytest.raises(ConfigError, match=r"/no/such\.pem"):
        client_context(
            NetSettings(use_tls=True, tls_client_auth_server=True, tls_client_trust_cert_path="/no/such.pem")
        )


def test_without_a_certificate_permissive_is_plain():
    assert server_context(NetSettings()) is None
    assert client_context(NetSettings()) is None


def test_a_client_that_does_not_check_takes_any_certificate():
    context = client_context(NetSettings(use_tls=True))

    assert context.verify_mode == ssl.CERT_NONE
