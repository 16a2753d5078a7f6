"""Progress that a power cut leaves never says more than the log that it leaves.

A message that comes again, or is sent back, is stored once more, and the group's progress passes its first
record. Had the disk the progress, and not yet the second record, nobody would see the message again.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from kinds_stage import ManualStage, running_stage, settle
from pop_model import ROOT
from pop_stage import GROUP, SECOND_MS, TOPIC, PopStage, pop_stage

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.disk import SimulatedDisk
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.offset_bodies import decode_group_offsets

#: Later than a write of progress, and sooner than a sync of a log that grew by little.
SAVED_MS = 6_000
PROGRESS_FILE = "consumerOffset.json"


@pytest.fixture(params=range(5))
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


def saved_progress(disk: SimulatedDisk) -> int | None:
    """Return the progress of the group in the topic's first queue that the disk has."""
    for path, data in disk.image().items():
        if str(path).endswith(PROGRESS_FILE):
            return decode_group_offsets(data).get(f"{TOPIC}@{GROUP}", {}).get(0)
    return None


async def is_saved(stage: ManualStage, disk: SimulatedDisk) -> None:
    """Let the broker save progress by its own clock, until the file says that the message is passed."""
    stage.clock.advance(SAVED_MS)
    await settle()
    await aeventually(lambda: saved_progress(disk) == 1, what="progress is saved")


@asynccontextmanager
async def after_a_cut(
    disk: SimulatedDisk, chance: random.Random, stage: ManualStage
) -> AsyncIterator[PopStage]:
    left = disk.after_power_cut(chance)
    async with pop_stage(ROOT, clock=stage.clock, files=left) as survivor:
        yield survivor


@pytest.mark.row("PO-04", "FL-02")
async def test_when_the_log_cannot_be_synced_what_was_popped_is_not_passed_on_the_disk(
    chance: random.Random,
) -> None:
    disk = SimulatedDisk()
    async with pop_stage(ROOT, files=disk) as stage:
        await stage.send(b"kept")
        await stage.broker.durability.sync_now()
        assert await stage.member().bodies(invisible_ms=SECOND_MS) == [b"kept"]
        # The first to fail is that of POP's own checkpoint, which is written each second, or a later one.
        disk.fail_syncs(100, under="/commitlog/")
        await stage.pass_time(SECOND_MS)
        stage.clock.advance(SAVED_MS)
        await aeventually(lambda: stage.broker.durability.why_failed, what="a sync failed")
        stage.clock.advance(SAVED_MS)
        await settle()

        async with after_a_cut(disk, chance, stage) as survivor:
            assert saved_progress(disk) in (None, 0)
            await survivor.pass_time(SECOND_MS)
            assert await survivor.member().await_bodies(1) == [b"kept"]


@pytest.mark.row("RT-01")
async def test_a_message_that_was_sent_back_is_there_after_a_power_cut(chance: random.Random) -> None:
    disk = SimulatedDisk()
    async with running_stage(ROOT, files=disk) as stage:
        client = stage.connect()
        await client.heartbeat(consumer=GROUP)
        await client.send(TOPIC, b"kept")
        await stage.broker.durability.sync_now()
        record = (await client.await_stored(TOPIC))[0]
        back = {"group": GROUP, "offset": record.position, "delayLevel": 1, "originTopic": TOPIC}
        answer = await client.request(RequestCode.CONSUMER_SEND_MSG_BACK, back)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        commit = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": 1}
        await client.oneway(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
        await aeventually(
            lambda: stage.broker.groups.offsets.progress(GROUP, TOPIC, 0) == 1, what="committed"
        )
        await is_saved(stage, disk)

        async with after_a_cut(disk, chance, stage) as survivor:
            survivor.clock.advance(SECOND_MS)
            reader = survivor.connect()
            back_again = await reader.await_stored(f"%RETRY%{GROUP}")
            assert [one.body for one in back_again] == [b"kept"]
