"""A disk that is nearly full: sends are refused with the reason, and taken again when there is room."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from retention_stage import RetentionStage, retention_stage
from staged_files import StagedFiles

from pyromq.codes import RequestCode, ResponseCode
from pyromq.store.files import DiskUse
from pyromq.testing.requests import batch_body, send_v2_fields


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[RetentionStage]:
    async with retention_stage(tmp_path) as stage:
        yield stage


@pytest.mark.row("CL-06", "SC-08")
async def test_over_ninety_percent_every_send_is_refused(stage: RetentionStage) -> None:
    await stage.client.send("orders")
    stage.files.percent_used = 91
    await stage.look()

    batch = await stage.client.request(
        RequestCode.SEND_BATCH_MESSAGE, send_v2_fields("orders", batch=True), body=batch_body([b"a"])
    )
    for answer in (
        await stage.client.send("orders"),
        await stage.client.send("orders", properties={"WAIT": "false"}),
        await stage.client.send("orders", properties={"DELAY": "3"}),
        batch,
    ):
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert await stage.max_offset() == 1


@pytest.mark.row("CL-06", "SC-08")
async def test_the_refusal_says_how_full_the_disk_is_and_which_limit_that_breaks(
    stage: RetentionStage,
) -> None:
    stage.files.percent_used = 93
    await stage.look()

    remark = (await stage.client.send("orders")).remark

    assert remark is not None
    for words in ("93%", "90 %", "diskSpaceWarningLevelRatio", str(stage.stage.folder), "fileReservedTime"):
        assert words in remark


@pytest.mark.row("CL-06")
async def test_at_ninety_percent_sends_are_taken(stage: RetentionStage) -> None:
    stage.files.percent_used = 90
    await stage.look()

    assert (await stage.client.send("orders")).code == ResponseCode.SUCCESS


@pytest.mark.row("CL-06", "SC-08")
async def test_reading_goes_on(stage: RetentionStage) -> None:
    await stage.client.send("orders", b"there")
    stage.files.percent_used = 99
    await stage.look()

    assert [record.body for record in await stage.client.stored("orders")] == [b"there"]


@pytest.mark.row("CL-06", "SC-08")
async def test_when_there_is_room_again_sends_are_taken_without_a_restart(stage: RetentionStage) -> None:
    stage.files.percent_used = 95
    await stage.look()
    assert (await stage.client.send("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE

    stage.files.percent_used = 60
    await stage.look()

    assert (await stage.client.send("orders")).code == ResponseCode.SUCCESS


@pytest.mark.row("CL-06")
async def test_a_broker_that_starts_on_a_full_disk_reads_and_refuses(stage: RetentionStage) -> None:
    await stage.client.send("orders", b"there")
    stage.files.percent_used = 95

    await stage.restart()

    assert (await stage.client.send("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert [record.body for record in await stage.client.stored("orders")] == [b"there"]


class SmallDisk(StagedFiles):
    """A disk on which each file of the log takes ten percent."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log

    def disk_use(self, path: Path) -> DiskUse:
        """Return how full the log makes the disk."""
        self.percent_used = min(10 * len(list(self._log.iterdir())), 100)
        return super().disk_use(path)


@pytest.mark.row("CL-05", "CL-06", "SC-08")
async def test_a_broker_that_filled_its_disk_makes_room_and_goes_on_by_itself(tmp_path: Path) -> None:
    """Nobody does anything: retention makes the room, and the next look finds it."""
    log = tmp_path / "store" / "commitlog"
    async with retention_stage(tmp_path / "store", files=SmallDisk(log)) as stage:
        refused = taken_again = False
        for number in range(300):
            answer = await stage.client.send("orders", b"%04d" % number * 250)
            refused = refused or answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            taken_again = taken_again or (refused and answer.code == ResponseCode.SUCCESS)
            if number % 25 == 24:
                await stage.look(after_ms=60_000)

        assert refused
        assert taken_again
        low, end = await stage.min_offset(), await stage.max_offset()
        assert 0 < low < end
        kept = await stage.client.stored("orders", offset=low)
        assert [record.queue_offset for record in kept] == list(range(low, low + len(kept)))
