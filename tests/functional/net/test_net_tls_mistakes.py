"""Mistakes with TLS: the client's error and the server's log say that it is TLS, and what to do."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from pyromq.clock import SystemClock
from pyromq.config.settings import NetSettings
from pyromq.errors import NetworkError, TlsFailed
from pyromq.net.blocking import BlockingLinks
from pyromq.net.links import Links
from pyromq.net.routes import Answer, RequestTable, Route
from pyromq.net.server import Server
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command

ECHO = 10
Ask = Callable[..., Awaitable[Command]]


def issued(folder: Path, name: str, authority: trustme.CA, **words: Any) -> tuple[str, str]:
    """Write a certificate and its key, and return where."""
    certificate = authority.issue_cert(words.pop("host", "127.0.0.1"), **words)
    paths = str(folder / f"{name}.pem"), str(folder / f"{name}.key")
    certificate.cert_chain_pems[0].write_to_path(paths[0])
    certificate.private_key_pem.write_to_path(paths[1])
    return paths


class Authority:
    """Issues certificates into a folder; `trusting` are the settings of clients that trust it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        folder.mkdir(exist_ok=True)
        self.authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        self.trusting = {
            "use_tls": True,
            "tls_client_auth_server": True,
            "tls_client_trust_cert_path": str(folder / "ca.pem"),
        }

    def server(self, name: str = "server", **words: Any) -> dict[str, str]:
        """Return the settings of a server with a certificate of this authority."""
        certificate, key = issued(self.folder, name, self.authority, **words)
        return {"tls_server_cert_path": certificate, "tls_server_key_path": key}


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@contextlib.asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[str]:
    table = RequestTable([Route(ECHO, lambda request: Answer(body=request.body))])
    server = Server(table, NetSettings(**settings), clock=SystemClock(), name="broker-a")
    host, port = await server.start("127.0.0.1", 0)
    try:
        yield f"{host}:{port}"
    finally:
        await server.close()


async def ask_on_a_loop(address: str, **settings: Any) -> Command:
    links = Links(NetSettings(**settings))
    try:
        return await links.request(address, Command(ECHO, body=b"x"), 5)
    finally:
        await links.close()


async def ask_and_block(address: str, **settings: Any) -> Command:
    links = BlockingLinks(NetSettings(**settings))
    try:
        return await asyncio.to_thread(links.request, address, Command(ECHO, body=b"x"), 5)
    finally:
        links.close()


@pytest.fixture(params=[ask_on_a_loop, ask_and_block], ids=["loop", "blocking"])
def ask(request: pytest.FixtureRequest) -> Ask:
    face: Ask = request.param
    return face


async def fails(ask: Ask, address: str, *, kind: type[NetworkError] = TlsFailed, **settings: Any) -> str:
    """Return why TLS with a server failed."""
    with pytest.raises(kind) as failed:
        await ask(address, **settings)
    assert address in str(failed.value)
    assert "TLS" in str(failed.value)
    return str(failed.value)


async def logged(caplog: pytest.LogCaptureFixture, *words: str) -> None:
    await aeventually(
        lambda: any(all(word in line for word in ("broker-a", "TLS", *words)) for line in caplog.messages),
        what=f"the server's log has {words}; it has {caplog.messages}",
    )


async def test_a_plain_client_where_only_tls_is_taken(
    ours: Authority, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(**ours.server(), tls_server_mode="enforcing") as address:
        for _ in range(3):
            why = await fails(ask, address)
        await logged(caplog, "tlsServerMode=enforcing", "set useTLS there")
    assert "takes TLS only" in why
    assert "set use_tls" in why
    assert sum("tlsServerMode=enforcing" in line for line in caplog.messages) == 1


async def test_a_certificate_of_an_authority_that_the_client_does_not_trust(
    ours: Authority, ask: Ask, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(**ours.server()) as address:
        why = await fails(ask, address, **Authority(tmp_path / "others").trusting)
        await logged(caplog, "not trust this server's certificate", "tlsClientTrustCertPath")
    assert "not from an authority that is trusted here" in why
    assert "tls_client_trust_cert_path" in why


async def test_a_certificate_that_has_expired(
    ours: Authority, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime.now(UTC)
    expired = ours.server(not_before=now - timedelta(days=9), not_after=now - timedelta(days=1))
    async with serving(**expired) as address:
        why = await fails(ask, address, **ours.trusting)
        await logged(caplog, "expired", "renew tlsServerCertPath")
    assert "its certificate has expired; renew its tlsServerCertPath" in why


async def test_names_are_not_checked_as_in_rocketmq(ours: Authority, ask: Ask) -> None:
    async with serving(**ours.server(host="elsewhere.example.com")) as address:
        assert (await ask(address, **ours.trusting)).body == b"x"


async def test_a_client_with_tls_at_a_server_without(
    ask: Ask, ours: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as address:
        why = await fails(ask, address, **ours.trusting)
    assert "a server does that has no TLS" in why
    assert "tlsServerCertPath" in why
    assert any("wants TLS, which is not set up here" in line for line in caplog.messages)


async def test_a_client_without_a_certificate_where_one_is_asked_for(
    ours: Authority, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    asking = {
        "tls_server_auth_client": True,
        "tls_server_need_client_auth": "require",
        "tls_server_trust_cert_path": str(ours.folder / "ca.pem"),
    }
    async with serving(**ours.server(), **asking) as address:
        why = await fails(ask, address, kind=NetworkError, **ours.trusting)
        await logged(caplog, "it has no certificate", "tlsClientCertPath")
    assert "tls_client_cert_path" in why
