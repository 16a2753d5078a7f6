"""Whatever makes a broker refuse clients is logged when it begins and when it ends, with the cause."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from kinds_stage import ManualStage, Stage, running_real_stage, running_stage
from retention_stage import retention_stage
from slave_stage import running_pair
from staged_files import StagedFiles

from pyromq.broker.durability.acknowledgement import Lease
from pyromq.broker.replication.standing import Standing
from pyromq.codes import RequestCode, ResponseCode
from pyromq.net.address import split_address
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually

SECOND_MS = 1_000


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What brokers said of refusals so far."""
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records if record.name == "pyromq.episodes"]


async def ended(stage: ManualStage, told: Callable[[], list[str]], count: int = 2) -> list[str]:
    """Let seconds pass until the broker has said so much."""

    def look() -> bool:
        stage.clock.advance(SECOND_MS)
        return len(told()) >= count

    await aeventually(look, what="the end is logged")
    stage.clock.advance(60 * SECOND_MS)
    return told()


def is_of(lines: list[str], what: str, *causes: str) -> bool:
    """Whether the lines are a beginning and an end of one refusal, with its causes in both."""
    begin, end = lines
    return (
        begin.startswith(f"DEFAULT_BROKER refuses {what}: ")
        and end.startswith(f"DEFAULT_BROKER takes {what} again, after ")
        and all(cause in line for cause in causes for line in lines)
    )


@pytest.mark.row("CL-06")
async def test_a_disk_over_the_limit(tmp_path: Path, told: Callable[[], list[str]]) -> None:
    async with retention_stage(tmp_path, broker_name="DEFAULT_BROKER") as stage:
        stage.files.percent_used = 93
        await stage.look()
        for _ in range(3):
            assert (await stage.client.send("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert len(told()) == 1
        stage.files.percent_used = 20
        await stage.look()
        lines = await ended(stage.stage, told)
    assert is_of(lines, "messages", "93%", "diskSpaceWarningLevelRatio")


async def test_a_disk_without_room(tmp_path: Path, told: Callable[[], list[str]]) -> None:
    files = StagedFiles()
    async with running_stage(tmp_path, files=files, broker_name="DEFAULT_BROKER") as stage:
        client = stage.connect()
        await client.send("orders")
        files.full_name = "0000"
        for _ in range(3):
            assert (await client.send("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert len(told()) == 1
        files.full_name = None
        lines = await ended(stage, told)
        assert (await client.send("orders")).code == ResponseCode.SUCCESS
    assert is_of(lines, "messages", "No space left on device")


async def test_a_sync_that_failed_ends_with_the_restart(
    tmp_path: Path, told: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    files = StagedFiles()
    async with running_stage(
        tmp_path, files=files, flush_disk_type="SYNC_FLUSH", broker_name="DEFAULT_BROKER"
    ) as stage:
        client = stage.connect()
        files.sync_error = "Input/output error"
        for _ in range(3):
            await client.send("orders")
        (begin,) = told()
        files.sync_error = None
        await stage.restart()
        assert (await stage.connect().send("orders")).code == ResponseCode.SUCCESS
    assert begin.startswith("DEFAULT_BROKER refuses messages until a restart: ")
    (end,) = (line for line in caplog.messages if "it refused clients until then" in line)
    assert begin.partition(": ")[2] in end


async def test_a_lease_that_is_over(tmp_path: Path, told: Callable[[], list[str]]) -> None:
    clock = ManualClock()
    lease = Lease(clock.monotonic, clock.monotonic() + 10)
    stage = ManualStage(tmp_path, clock, standing=Standing(lease=lease), broker_name="DEFAULT_BROKER")
    await stage.start()
    try:
        client = stage.connect()
        assert (await client.send("orders")).code == ResponseCode.SUCCESS
        clock.advance(10 * SECOND_MS)
        for _ in range(3):
            assert (await client.send("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert len(told()) == 1
        lease.renew(clock.monotonic() + 1_000)
        lines = await ended(stage, told)
    finally:
        await stage.close()
    assert is_of(lines, "all requests", "lease", "etcd")


async def test_a_hand_over_that_did_not_come_to_pass(tmp_path: Path, told: Callable[[], list[str]]) -> None:
    async with running_stage(tmp_path, broker_name="DEFAULT_BROKER") as stage:
        durability = stage.broker.durability
        assert durability is not None
        durability.is_handing_over = True
        assert (await stage.connect().send("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        durability.is_handing_over = False
        lines = await ended(stage, told)
    assert is_of(lines, "messages", "hands over")


async def test_too_few_replicas_and_no_slave_of_a_synchronous_master(
    tmp_path: Path, told: Callable[[], list[str]]
) -> None:
    settings = {"broker_role": "SYNC_MASTER", "min_in_sync_replicas": 2, "broker_name": "DEFAULT_BROKER"}
    async with running_pair(tmp_path, **settings) as pair:
        await pair.caught_up()
        await aeventually(lambda: len(told()) == 4, what="the slave is there, and that is logged")
        await pair.stop(pair.slave)
        await aeventually(lambda: len(told()) == 6, what="the slave is gone, and that is logged")
        assert (await pair.master.connect().send("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        first, later = told()[:4], told()[4:]
    assert is_of(
        [line for line in first if "refuses messages" in line or "takes messages" in line], "messages"
    )
    assert is_of([line for line in first if "synchronous" in line.partition(":")[0]], "synchronous copies")
    assert sum("minInSyncReplicas=2" in line for line in later) == 1
    assert sum("SLAVE_NOT_AVAILABLE" in line for line in later) == 1


@pytest.mark.parametrize(
    ("permission", "who"), [(4, "producers"), (2, "consumers")], ids=["read only", "write only"]
)
async def test_a_permission_that_was_changed(
    tmp_path: Path, told: Callable[[], list[str]], permission: int, who: str
) -> None:
    async with running_stage(tmp_path, broker_name="DEFAULT_BROKER") as stage:
        client = stage.connect()

        async def change(value: int) -> None:
            answer = await client.request(
                RequestCode.UPDATE_BROKER_CONFIG, body=f"brokerPermission={value}\n".encode()
            )
            assert answer.code == ResponseCode.SUCCESS, answer.remark

        await change(permission)
        await ended(stage, told, 1)
        await change(6)
        lines = await ended(stage, told)
    assert is_of(lines, who, f"brokerPermission={permission}")


async def test_a_time_before_which_nothing_is_taken(tmp_path: Path, told: Callable[[], list[str]]) -> None:
    clock = ManualClock()
    settings = {
        "start_accept_send_request_time_stamp": clock.now_ms() + 5 * SECOND_MS,
        "broker_name": "DEFAULT_BROKER",
    }
    async with running_stage(tmp_path, clock=clock, **settings) as stage:
        assert len(told()) == 1
        lines = await ended(stage, told)
    assert is_of(lines, "messages", "startAcceptSendRequestTimeStamp")


async def test_too_many_connections(tmp_path: Path, told: Callable[[], list[str]]) -> None:
    async with running_real_stage(tmp_path, connections_max=2, broker_name="DEFAULT_BROKER") as stage:
        place = split_address(stage.address)
        writers = [(await asyncio.open_connection(*place))[1] for _ in range(2)]
        for _ in range(3):
            reader, refused = await asyncio.open_connection(*place)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            refused.close()
        assert len(told()) == 1
        for writer in writers:
            writer.close()
        await aeventually(lambda: len(told()) == 2, what="the end is logged")
    assert is_of(told(), "connections", "connectionsMax=2")


async def test_a_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="pyromq.broker.broker")
    stage = Stage(tmp_path, ManualClock(), broker_name="DEFAULT_BROKER")
    await stage.start()
    await stage.close()
    said = [line for line in caplog.messages if "DEFAULT_BROKER" in line]
    assert said[-2:] == ["DEFAULT_BROKER refuses all requests: it stops", "DEFAULT_BROKER has stopped"]
