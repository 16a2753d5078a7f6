"""TLS on every connection that RocketMQ 4.9 has it for: clients, commands, brokers and name servers."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme
from doctor_stage import DoctorStage
from typer.testing import CliRunner

from pyromq import ClientSettings, Message, Producer, SendResult, SendStatus, aio
from pyromq.broker.broker import Broker
from pyromq.cli.credentials import client_settings
from pyromq.cli.main import app
from pyromq.clock import SystemClock
from pyromq.config.choices import TlsServerMode
from pyromq.config.load import build
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.settings import BrokerProcess, NetSettings
from pyromq.errors import PyroError
from pyromq.kernel import IS_COMPILED
from pyromq.namesrv.namesrv import NameServer


@dataclass(frozen=True)
class Secured:
    """Servers that take TLS only, and the certificate of who issued theirs."""

    name_server: str
    authority: Path


def certificates(folder: Path) -> dict[str, Any]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(folder / "server.key"))
    issued.cert_chain_pems[0].write_to_path(str(folder / "server.pem"))
    return {
        "tls_server_mode": TlsServerMode.ENFORCING,
        "tls_server_cert_path": str(folder / "server.pem"),
        "tls_server_key_path": str(folder / "server.key"),
        "use_tls": True,
        "tls_client_auth_server": True,
        "tls_client_trust_cert_path": str(folder / "ca.pem"),
    }


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[Secured]:
    tls = certificates(tmp_path)
    settings = NamesrvSettings(listen_port=0, kv_config_path=str(tmp_path / "kv.json"))
    name_server = NameServer(settings, NetSettings(**tls), clock=SystemClock())
    await name_server.start()
    address = f"127.0.0.1:{name_server.port}"
    own = {
        "listen_port": 0,
        "namesrv_addr": address,
        "store_path_root_dir": str(tmp_path / "store"),
        "mapped_file_size_commit_log": 1 << 22,
        **tls,
    }
    broker = Broker(build(BrokerProcess, own))
    await broker.start()
    yield Secured(address, tmp_path / "ca.pem")
    await broker.close()
    await name_server.close()


async def send_and_read(name_server: str, settings: ClientSettings) -> list[bytes]:
    async with aio.Producer("producers", name_server, settings=settings) as producer:
        sent = await producer.send(Message("orders", b"unseen on its way"))
    async with aio.PullConsumer("readers", name_server=name_server, settings=settings) as consumer:
        return [message.body for message in (await consumer.pull(sent.queue, 0)).messages]


async def test_messages_go_in_and_out_where_only_tls_is_taken(secured: Secured) -> None:
    # The route is there because the broker registered over TLS too.
    settings = ClientSettings(
        use_tls=True, tls_client_auth_server=True, tls_client_trust_cert_path=str(secured.authority)
    )

    assert await send_and_read(secured.name_server, settings) == [b"unseen on its way"]


async def test_many_sends_share_a_connection_of_tls(secured: Secured) -> None:
    """Those of tasks and those of threads; from the second on they are plain, without a plan."""
    settings = ClientSettings(
        use_tls=True, tls_client_auth_server=True, tls_client_trust_cert_path=str(secured.authority)
    )
    async with aio.Producer("tasks", secured.name_server, settings) as producer:
        await producer.send(Message("orders", b"first"))
        sent = await asyncio.gather(*(producer.send(Message("orders", b"%d" % n)) for n in range(300)))

    def on_threads() -> list[SendResult]:
        with Producer("threads", secured.name_server, settings) as producer, ThreadPoolExecutor(16) as pool:
            for _ in range(8):
                producer.send(Message("orders", b"first"))
            shared = producer._runner.plain_sends._links.shared_links if IS_COMPILED else [""]
            results = list(pool.map(lambda n: producer.send(Message("orders", b"%d" % n)), range(300)))
            assert len(shared) == 1
            return results

    sent += await asyncio.to_thread(on_threads)
    assert len({(one.queue, one.queue_offset) for one in sent}) == 600
    assert {one.status for one in sent} == {SendStatus.SEND_OK}


async def test_commands_speak_tls_as_the_environment_says(secured: Secured) -> None:
    settings = client_settings(
        {
            "PYROMQ_USE_TLS": "true",
            "PYROMQ_TLS_CLIENT_AUTH_SERVER": "true",
            "PYROMQ_TLS_CLIENT_TRUST_CERT_PATH": str(secured.authority),
        }
    )

    assert await send_and_read(secured.name_server, settings) == [b"unseen on its way"]


async def test_plain_connections_are_refused_where_only_tls_is_taken(secured: Secured) -> None:
    with pytest.raises(PyroError):
        await send_and_read(secured.name_server, ClientSettings(send_msg_timeout=1_000))


async def test_a_client_that_checks_refuses_servers_of_another_authority(
    secured: Secured, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(str(stranger))
    settings = ClientSettings(
        use_tls=True,
        tls_client_auth_server=True,
        tls_client_trust_cert_path=str(stranger),
        send_msg_timeout=1_000,
    )

    with pytest.raises(PyroError):
        await send_and_read(secured.name_server, settings)


# Mistakes ------------------------------------------------------------------------------------------------


async def test_commands_without_tls_say_that_the_name_server_takes_nothing_else(secured: Secured) -> None:
    for words in (["topic", "list"], ["doctor", "--watch", "0"]):
        ended = await asyncio.to_thread(
            CliRunner().invoke, app, [*words, "-n", secured.name_server], env={"COLUMNS": "1000"}
        )
        assert ended.exit_code == 4, ended.output + repr(ended.exception)
        said = ended.stderr or str(ended.exception)
        assert "takes TLS only" in said
        assert "PYROMQ_USE_TLS=true" in said


async def test_the_doctor_says_of_a_broker_that_is_there_that_tls_with_it_fails(tmp_path: Path) -> None:
    tls = certificates(tmp_path) | {"use_tls": False, "tls_client_auth_server": False}
    settings = NamesrvSettings(listen_port=0, kv_config_path=str(tmp_path / "kv.json"))
    name_server = NameServer(settings, NetSettings(), clock=SystemClock())
    await name_server.start()
    own = {
        "listen_port": 0,
        "namesrv_addr": f"127.0.0.1:{name_server.port}",
        "store_path_root_dir": str(tmp_path / "store"),
        "mapped_file_size_commit_log": 1 << 22,
    }
    broker = Broker(build(BrokerProcess, own | tls))
    await broker.start()
    try:
        examined = await DoctorStage(str(own["namesrv_addr"])).aexamine("--only", "addresses")
    finally:
        await broker.close()
        await name_server.close()

    finding = examined.one("broker-a")
    assert finding["severity"] == "problem"
    assert "takes TLS only" in finding["message"]
    assert "TLS with it fails from here" in finding["do"]
    assert "overloaded" not in finding["do"]
