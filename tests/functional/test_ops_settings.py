"""A broker's settings while it runs: shown, changed, kept, and refused where a change would be dangerous."""

import asyncio
from pathlib import Path

import pytest

from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.properties_file import read_properties
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import held_pull_fields, pull_fields, send_v2_fields
from pyromq.testing.wire_client import WireClient

GET, UPDATE = RequestCode.GET_BROKER_CONFIG, RequestCode.UPDATE_BROKER_CONFIG


async def shown(client: WireClient) -> dict[str, str]:
    answer = await client.ask(GET)
    return {line.key: line.value for line in read_properties(answer.body.decode())}


async def test_all_settings_are_shown_as_lines_with_their_version(client: WireClient) -> None:
    answer = await client.ask(GET)
    assert answer.code == ResponseCode.SUCCESS
    assert (answer.ext or {})["version"].startswith('{"counter":0,"timestamp":')
    settings = await shown(client)
    assert settings["brokerName"] == "broker-a"
    assert settings["fileReservedTime"] == "72"


async def test_a_change_holds_at_once_and_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    async with (
        Cluster(data_dir=tmp_path, clock=clock) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        answer = await client.ask(UPDATE, None, b"fileReservedTime=48\nbrokerPermission=2\n")
        assert answer.code == ResponseCode.SUCCESS
        assert (await shown(client))["fileReservedTime"] == "48"
        refused = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("TBW102"))
        assert refused.code == ResponseCode.NO_PERMISSION
    async with (
        Cluster(data_dir=tmp_path, clock=clock) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        settings = await shown(client)
        assert (settings["fileReservedTime"], settings["brokerPermission"]) == ("48", "2")


async def test_topics_come_into_being_by_sends_once_that_is_switched_on(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, auto_create_topic_enable=False) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        before = await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"x")
        await client.ask(UPDATE, None, b"autoCreateTopicEnable=true")
        after = await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"x")
    assert (before.code, after.code) == (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUCCESS)


async def test_pulls_have_the_new_limit_though_the_kernel_knows_them_already(client: WireClient) -> None:
    for _ in range(3):
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"x")
    for _ in range(3):
        pulled = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("orders"))
        assert (pulled.ext or {})["nextBeginOffset"] == "3"

    await client.ask(UPDATE, None, b"maxTransferCountOnMessageInMemory=1")

    for _ in range(3):
        pulled = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("orders"))
        assert (pulled.ext or {})["nextBeginOffset"] == "1"


async def test_pulls_are_held_for_a_second_once_long_polling_is_switched_off(
    client: WireClient, clock: ManualClock
) -> None:
    await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"x")
    await client.ask(UPDATE, None, b"longPollingEnable=false")
    clock.advance(5_000)

    held = client.begin(RequestCode.PULL_MESSAGE, held_pull_fields("orders", queueOffset=1))
    # Answered behind the pull, which is held by then.
    await client.ask(GET)
    clock.advance(1_000)

    assert (await asyncio.wait_for(held, 10)).code == ResponseCode.PULL_NOT_FOUND


@pytest.mark.parametrize(
    "line",
    [
        "storePathRootDir=/tmp/elsewhere",
        "storePathCommitLog=/tmp/elsewhere",
        "brokerName=broker-b",
        "brokerClusterName=other",
        "brokerId=7",
        "rmqAddressServerDomain=10.0.0.1:8080",
        "listenPort=1",
        "brokerIP1=10.0.0.1",
    ],
)
async def test_what_moves_files_or_makes_it_another_broker_is_refused_with_the_reason(
    client: WireClient, line: str
) -> None:
    before = await shown(client)

    answer = await client.ask(UPDATE, None, f"fileReservedTime=1\n{line}\n".encode())

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert line.partition("=")[0] in (answer.remark or "")
    assert await shown(client) == before


@pytest.mark.row("CF-01")
async def test_a_change_that_has_no_effect_is_accepted_and_logged_with_the_reason(
    client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await client.ask(
        UPDATE, None, b"disableConsumeIfConsumerReadSlowly=true\ncommercialBaseCount=1\n"
    )

    assert answer.code == ResponseCode.SUCCESS
    (told,) = [record.message for record in caplog.records if "has no effect" in record.message]
    assert "disableConsumeIfConsumerReadSlowly=true has no effect (limits): a consumer that reads old" in told


async def test_one_setting_that_does_not_read_keeps_all_as_they_were(client: WireClient) -> None:
    answer = await client.ask(UPDATE, None, b"fileReservedTime=soon\nlongPollingEnable=false")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "fileReservedTime" in (answer.remark or "")
    assert (await shown(client))["longPollingEnable"] == "true"


async def test_a_damaged_file_of_changes_is_named_at_the_start(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path):
        pass
    (tmp_path / "broker-a" / "config" / "live.properties").write_text("fileReservedTime=soon\n")

    with pytest.raises(Exception, match=r"live\.properties.*fileReservedTime"):
        async with Cluster(data_dir=tmp_path):
            pass
