"""The log is copied under TLS where haUseTLS says so, and to nobody who does not speak it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from failover_stage import is_acknowledged
from harness.ports import free_broker_port

from pyromq.broker.broker import Broker
from pyromq.broker.replication.following import Following
from pyromq.clock import SystemClock
from pyromq.config.load import build
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.settings import MIB, BrokerProcess, NetSettings
from pyromq.errors import ConfigError
from pyromq.namesrv.namesrv import NameServer
from pyromq.net.address import split_address
from pyromq.testing.waiting import aeventually
from pyromq.wire.replication import POSITION_BYTES

LONG_S = 30.0
SECRET = b"nobody reads this on its way"


def issued_by(authority: trustme.CA, folder: Path) -> dict[str, Any]:
    """Write a certificate, and return the settings of a broker that shows it and trusts its authority."""
    folder.mkdir()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(folder / "server.key"))
    issued.cert_chain_pems[0].write_to_path(str(folder / "server.pem"))
    return {
        "tls_server_cert_path": str(folder / "server.pem"),
        "tls_server_key_path": str(folder / "server.key"),
        "tls_client_auth_server": True,
        "tls_client_trust_cert_path": str(folder / "ca.pem"),
        "ha_use_tls": True,
    }


@pytest.fixture
async def name_server(tmp_path: Path) -> AsyncIterator[str]:
    settings = NamesrvSettings(listen_port=0, kv_config_path=str(tmp_path / "kv.json"))
    server = NameServer(settings, NetSettings(), clock=SystemClock())
    await server.start()
    yield f"127.0.0.1:{server.port}"
    await server.close()


@asynccontextmanager
async def broker(folder: Path, name_server: str, **settings: Any) -> AsyncIterator[Broker]:
    own = {
        "listen_port": free_broker_port(),
        "namesrv_addr": name_server,
        "store_path_root_dir": str(folder),
        "mapped_file_size_commit_log": 4 * MIB,
    }
    broker = Broker(build(BrokerProcess, own | settings))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.close()


def trouble_of(slave: Broker) -> str:
    assert isinstance(slave.replicating, Following)
    assert slave.replicating.client is not None
    return slave.replicating.client.trouble or ""


async def test_a_slave_copies_under_tls(tmp_path: Path, name_server: str) -> None:
    tls = issued_by(trustme.CA(), tmp_path / "tls")
    async with (
        broker(tmp_path / "master", name_server, broker_role="SYNC_MASTER", **tls) as master,
        broker(tmp_path / "slave", name_server, broker_role="SLAVE", broker_id=1, **tls) as slave,
    ):
        # Without its slave the master says SLAVE_NOT_AVAILABLE.
        await aeventually(
            lambda: is_acknowledged(master.address, SECRET), LONG_S, what="the slave has what was sent"
        )
        assert slave.max_position == master.max_position
        assert SECRET in (tmp_path / "slave" / "commitlog" / "00000000000000000000").read_bytes()


async def test_who_does_not_speak_tls_gets_nothing_of_the_log(tmp_path: Path, name_server: str) -> None:
    tls = issued_by(trustme.CA(), tmp_path / "tls")
    async with broker(tmp_path / "master", name_server, **tls) as master:
        assert await is_acknowledged(master.address, SECRET)
        reader, writer = await asyncio.open_connection(*split_address(master.ha_address))
        # What a slave of 4.9 says first: from where on it wants the log.
        writer.write(bytes(POSITION_BYTES))
        heard = b""
        with suppress(ConnectionResetError):
            heard = await asyncio.wait_for(reader.read(), LONG_S)
        assert SECRET not in heard
        writer.close()


async def test_a_slave_follows_no_master_of_another_authority(tmp_path: Path, name_server: str) -> None:
    tls = issued_by(trustme.CA(), tmp_path / "tls")
    others = issued_by(trustme.CA(), tmp_path / "others")
    async with (
        broker(tmp_path / "master", name_server, **tls) as master,
        broker(tmp_path / "slave", name_server, broker_role="SLAVE", broker_id=1, **others) as slave,
    ):
        assert await is_acknowledged(master.address, SECRET)
        await aeventually(
            lambda: "certificate verify failed" in trouble_of(slave),
            LONG_S,
            what="it says why it copies nothing",
        )
        assert slave.max_position == 0


async def test_it_needs_a_certificate_and_says_so(tmp_path: Path, name_server: str) -> None:
    with pytest.raises(ConfigError, match="haUseTLS needs this broker's certificate: set tlsServerCertPath"):
        async with broker(tmp_path / "master", name_server, ha_use_tls=True):
            pass
