"""ASYNC_FLUSH: a send is answered at once, and the log is synced in bulk by the clock."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import ManualStage, running_stage, settle
from staged_files import StagedFiles

from pyromq.codes import ResponseCode
from pyromq.testing.waiting import aeventually

PAGE_BYTES = 4096


@pytest.fixture
def files() -> StagedFiles:
    return StagedFiles()


@pytest.fixture
async def stage(tmp_path: Path, files: StagedFiles) -> AsyncIterator[ManualStage]:
    async with running_stage(tmp_path, files=files) as stage:
        yield stage


@pytest.mark.row("FL-01", "FL-03")
async def test_a_send_is_answered_whatever_the_disk_does(stage: ManualStage, files: StagedFiles) -> None:
    client = stage.connect()
    with files.held_syncs():
        answer = await client.send("orders")
        assert answer.code == ResponseCode.SUCCESS
        assert len(await client.stored("orders")) == 1


@pytest.mark.row("FL-03")
async def test_four_pages_are_synced_within_half_a_second(stage: ManualStage, files: StagedFiles) -> None:
    await stage.connect().send("orders", b"x" * 4 * PAGE_BYTES)
    stage.clock.advance(499)
    await settle()
    assert files.log_syncs == 0

    stage.clock.advance(1)

    await aeventually(lambda: files.log_syncs == 1)


@pytest.mark.row("FL-03")
async def test_less_waits_for_the_thorough_sync_after_ten_seconds(
    stage: ManualStage, files: StagedFiles
) -> None:
    await stage.connect().send("orders", b"x" * 3 * PAGE_BYTES)
    for _ in range(19):
        stage.clock.advance(500)
        await settle()
    assert files.log_syncs == 0

    stage.clock.advance(500)

    await aeventually(lambda: files.log_syncs == 1)


@pytest.mark.row("FL-03")
async def test_an_idle_broker_syncs_nothing(stage: ManualStage, files: StagedFiles) -> None:
    await stage.connect().send("orders")
    stage.clock.advance(10_000)
    await aeventually(lambda: files.log_syncs == 1)

    for _ in range(80):
        stage.clock.advance(500)
        await settle()

    assert files.log_syncs == 1


@pytest.mark.row("FL-03")
async def test_an_orderly_stop_syncs_what_is_left(tmp_path: Path, files: StagedFiles) -> None:
    async with running_stage(tmp_path, files=files) as stage:
        await stage.connect().send("orders")
        assert files.log_syncs == 0

    assert files.log_syncs == 1
