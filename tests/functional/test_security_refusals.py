"""What was done to RocketMQ over the network cannot be done here, whoever asks.

CVE-2023-33246: settings of a broker that become a part of a shell command. CVE-2023-37582: settings of a name
server that say which file the settings are written to. The frames are those of the published attacks.
"""

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.broker.addresses import settle_addresses
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.field import Setting, settings_of
from pyromq.config.live import changed
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.pressure import PressureSettings
from pyromq.config.settings import BrokerProcess, BrokerSettings, NamesrvProcess, NetSettings, StoreSettings
from pyromq.errors import ConfigError
from pyromq.net.address import split_address
from pyromq.testing.cluster import Cluster
from pyromq.testing.wire_client import WireClient
from pyromq.wire.command import Command, decode_header

OWNERS = (BrokerSettings, PressureSettings, StoreSettings, NetSettings, NamesrvSettings)


def frame(header: bytes, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


async def attack(address: str, header: bytes, body: bytes) -> Command:
    reader, writer = await asyncio.open_connection(*split_address(address))
    writer.write(frame(header, body))
    length, mark = struct.unpack(">iI", await reader.readexactly(8))
    data = await reader.readexactly(length - 4)
    writer.close()
    size = mark & 0xFFFFFF
    command = decode_header(data[:size], mark >> 24)
    command.body = data[size:]
    return command


async def test_cve_2023_33246_no_setting_of_a_broker_becomes_a_command(
    cluster: Cluster, tmp_path: Path
) -> None:
    owned = tmp_path / "owned"
    header = (
        b'{"code":25,"extFields":{"test":"RockedtMQ"},"flag":0,"language":"JAVA","opaque":266,'
        b'"serializeTypeCurrentRPC":"JSON","version":433}'
    )
    body = f"filterServerNums=1\nrocketmqHome=-c $@|sh . echo touch {owned};\n".encode()

    answer = await attack(cluster.broker_addresses[0], header, body)

    assert answer.code != ResponseCode.SUCCESS
    assert "filterServerNums" in (answer.remark or "")
    assert "rocketmqHome" in (answer.remark or "")
    async with WireClient(cluster.broker_addresses[0]) as client:
        shown = await client.ask(RequestCode.GET_BROKER_CONFIG)
    assert b"sh . echo" not in shown.body
    assert not owned.exists()


@pytest.mark.parametrize(
    "line",
    [
        "rocketmqHome=/tmp/$(id)",
        "storePathRootDir=/tmp/elsewhere",
        "storePathCommitLog=/tmp/elsewhere",
        "aclFolder=/tmp",
    ],
)
async def test_a_broker_is_not_moved_over_the_network(cluster: Cluster, line: str) -> None:
    async with WireClient(cluster.broker_addresses[0]) as client:
        before = (await client.ask(RequestCode.GET_BROKER_CONFIG)).body
        # One line of many: a change that is good by itself does not take it along.
        answer = await client.ask(
            RequestCode.UPDATE_BROKER_CONFIG, None, f"brokerPermission=4\n{line}\n".encode()
        )
        after = (await client.ask(RequestCode.GET_BROKER_CONFIG)).body

    assert answer.code != ResponseCode.SUCCESS
    assert after == before


@pytest.mark.parametrize("key", ["configStorePath", "kvConfigPath", "rocketmqHome"])
async def test_cve_2023_37582_a_name_server_writes_to_no_file_that_a_request_names(
    cluster: Cluster, tmp_path: Path, key: str
) -> None:
    target = tmp_path / "target"
    header = (
        b'{"code":318,"extFields":{},"flag":0,"language":"JAVA","opaque":0,'
        b'"serializeTypeCurrentRPC":"JSON","version":433}'
    )
    body = f"{key}={target}\nproductEnvName=test/path\\nrun\\nme\n".encode()

    answer = await attack(cluster.namesrv_address, header, body)

    assert answer.code != ResponseCode.SUCCESS
    assert not target.exists()
    async with WireClient(cluster.namesrv_address) as client:
        shown = await client.ask(RequestCode.GET_NAMESRV_CONFIG)
    assert str(target).encode() not in shown.body


def live_settings() -> Iterator[Setting]:
    return (setting for owner in OWNERS for setting in settings_of(owner) if setting.live)


def test_no_path_no_command_and_no_host_but_name_servers_changes_over_the_network() -> None:
    texts = {setting.key for setting in live_settings() if setting.kind is str and setting.form != "hours"}

    # NS-20: name servers are added while brokers run.
    assert texts == {"productEnvName", "namesrvAddr"}


def test_no_secret_changes_over_the_network() -> None:
    assert [setting.key for setting in live_settings() if setting.secret] == []


@pytest.mark.parametrize("process", [BrokerProcess(), NamesrvProcess()], ids=["broker", "namesrv"])
def test_every_setting_that_is_not_live_is_refused(process: BrokerProcess | NamesrvProcess) -> None:
    owners = (
        (type(process.broker), type(process.pressure), type(process.store))
        if isinstance(process, BrokerProcess)
        else (type(process.namesrv),)
    )
    accepted = []
    for setting in (one for owner in (*owners, NetSettings) for one in settings_of(owner) if not one.live):
        try:
            changed(process, {setting.key: str(setting.default)})
        except ConfigError:
            continue
        accepted.append(setting.key)

    assert accepted == []


def test_servers_listen_on_the_loopback_address_unless_told_otherwise() -> None:
    assert settle_addresses(BrokerSettings()).bind_address == NamesrvSettings().bind_address == "127.0.0.1"
    assert BrokerSettings().metrics_prom_exporter_host == "127.0.0.1"


def test_what_a_peer_can_make_grow_has_a_limit() -> None:
    net = NetSettings()

    assert 0 < net.frame_bytes_max <= 16 * 1024 * 1024
    assert net.connections_max > 0
    assert net.requests_under_way_max > 0
    assert net.write_buffer_high_water_mark > 0
