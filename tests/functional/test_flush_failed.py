"""A sync fails: what the disk has is unknown, so nothing is acknowledged until a restart."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import ManualStage, Peer, running_stage
from staged_files import StagedFiles

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.requests import batch_body, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command

CAUSE = "Input/output error"


@pytest.fixture
def files() -> StagedFiles:
    return StagedFiles()


@pytest.fixture(params=["SYNC_FLUSH", "ASYNC_FLUSH"])
async def broken(
    request: pytest.FixtureRequest, tmp_path: Path, files: StagedFiles
) -> AsyncIterator[ManualStage]:
    """A broker with one message on disk, after a sync that failed."""
    async with running_stage(tmp_path, files=files, flush_disk_type=request.param) as stage:
        client = stage.connect()
        await client.send("orders", b"safe")
        stage.clock.advance(10_000)
        await aeventually(lambda: files.log_syncs >= 1)
        files.sync_error = CAUSE
        await client.send("orders", b"who knows")

        async def is_refused() -> bool:
            stage.clock.advance(500)
            return (await client.send("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE

        await aeventually(is_refused)
        yield stage


def why_refused(answer: Command) -> str:
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert answer.remark is not None
    return answer.remark


@pytest.mark.row("FL-02")
async def test_everybody_who_waits_for_the_failed_sync_is_refused(tmp_path: Path, files: StagedFiles) -> None:
    async with running_stage(tmp_path, files=files, flush_disk_type="SYNC_FLUSH") as stage:
        client = stage.connect()
        await client.send("orders")
        before = files.log_syncs
        with files.held_syncs():
            first = asyncio.ensure_future(client.send("orders"))
            await aeventually(lambda: files.log_syncs == before + 1)
            later = asyncio.ensure_future(client.send("orders"))
            await aeventually(lambda: stage.stored_end("orders") == 3)
            files.sync_error = CAUSE

        for answer in await asyncio.gather(first, later):
            assert "until it is restarted" in why_refused(answer)


async def test_no_kind_of_send_is_acknowledged_any_more(broken: ManualStage) -> None:
    client = broken.connect()
    batch = await client.request(
        RequestCode.SEND_BATCH_MESSAGE, send_v2_fields("orders", batch=True), body=batch_body([b"a", b"b"])
    )
    half = {"TRAN_MSG": "true", "PGROUP": "producers"}
    for answer in (
        await client.send("orders"),
        await client.send("orders", properties={"WAIT": "false"}),
        await client.send("orders", properties={"DELAY": "3"}),
        await client.send("orders", properties=half, sys_flag=4),
        batch,
    ):
        why_refused(answer)


async def test_the_refusal_says_what_failed_and_what_to_do(broken: ManualStage) -> None:
    remark = why_refused(await broken.connect().send("orders"))

    assert CAUSE in remark
    assert "commitlog" in remark
    assert "restart the broker when the disk is well again" in remark


async def test_reading_and_committing_go_on(broken: ManualStage) -> None:
    client = broken.connect()

    assert [record.body for record in await client.stored("orders")][:1] == [b"safe"]
    commit = {"consumerGroup": "readers", "topic": "orders", "queueId": 0, "commitOffset": 1}
    assert (await client.request(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == ResponseCode.SUCCESS
    query = {"consumerGroup": "readers", "topic": "orders", "queueId": 0}
    assert (await client.request(RequestCode.QUERY_CONSUMER_OFFSET, query)).ext == {"offset": "1"}


async def test_a_disk_that_works_again_changes_nothing_before_a_restart(
    broken: ManualStage, files: StagedFiles
) -> None:
    files.sync_error = None
    broken.clock.advance(60_000)

    why_refused(await broken.connect().send("orders"))


async def test_after_a_restart_on_a_disk_that_works_messages_are_taken_again(
    broken: ManualStage, files: StagedFiles
) -> None:
    files.sync_error = None
    await broken.restart()
    client: Peer = broken.connect()

    assert (await client.send("orders", b"again")).code == ResponseCode.SUCCESS

    bodies = [record.body for record in await client.stored("orders")]
    assert (bodies[0], bodies[-1]) == (b"safe", b"again")


async def test_the_log_says_it_once_and_loudly(
    tmp_path: Path, files: StagedFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_stage(tmp_path, files=files, flush_disk_type="SYNC_FLUSH") as stage:
        client = stage.connect()
        await client.send("orders")
        files.sync_error = CAUSE
        for _ in range(5):
            await client.send("orders")
        stage.clock.advance(60_000)
        await client.send("orders")

    loud = [record.getMessage() for record in caplog.records if record.levelno >= logging.CRITICAL]
    assert len(loud) == 1
    assert "until a restart" in loud[0]
    assert CAUSE in loud[0]
