"""A disk that fills up, fails, or loses a chunk while a batch is published: it goes on, or says why not."""

from collections import Counter

from kinds_stage import ManualStage, running_stage
from staged_story import QUERY, ROOT, SETTINGS, Writer, ids_of, readable

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.disk import SimulatedDisk
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.staging_bodies import PartChunks, StagedBody, encode_staged
from pyromq.wire.command import Command

PAGE_BYTES = 4096


async def try_to_publish(writer: Writer, batch: int, parts: list[PartChunks]) -> Command:
    fields = {"query": QUERY, "batch": batch, "home": "broker-a"}
    body = encode_staged(StagedBody(parts=parts))
    return await writer.client.request(RequestCode.PUBLISH_STAGED, fields, body=body)


async def look_at_the_disk(stage: ManualStage) -> bool:
    """Let the broker notice that there is room again."""
    stage.clock.advance(10_000)
    answer = await stage.connect().send("other")
    return answer.code == ResponseCode.SUCCESS


async def test_a_disk_that_fills_up_while_a_batch_is_published_loses_and_doubles_nothing() -> None:
    disk = SimulatedDisk()
    refused = 0
    async with running_stage(ROOT, files=disk, **SETTINGS) as stage:
        writer = Writer(stage.connect())
        for batch in range(6):
            await writer.open(batch)
            parts = [await writer.stage(batch, part) for part in range(2)]
            disk.capacity_bytes = disk.used_bytes + batch * PAGE_BYTES

            answer = await try_to_publish(writer, batch, parts)
            refused += answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            disk.capacity_bytes = 1 << 40
            await aeventually(lambda: look_at_the_disk(stage))
            await writer.publish(batch, parts)

            assert await readable(writer.client) == ids_of(batch + 1)
    assert refused


async def test_a_write_that_fails_is_made_up_for_after_a_restart() -> None:
    disk = SimulatedDisk()
    async with running_stage(ROOT, files=disk, **SETTINGS) as stage:
        writer = Writer(stage.connect())
        await writer.open(0)
        parts = [await writer.stage(0, part) for part in range(2)]
        disk.fail_writes(1, under="/commitlog/")

        assert (await try_to_publish(writer, 0, parts)).code == ResponseCode.SERVICE_NOT_AVAILABLE
        left, now_ms = disk.after_kill(), stage.clock.now_ms()

    async with running_stage(ROOT, clock=ManualClock(now_ms), files=left, **SETTINGS) as stage:
        writer = Writer(stage.connect(), name="second")
        await writer.write(0)
        assert await readable(writer.client) == ids_of(1)


async def test_a_decided_chunk_that_is_damaged_is_told_and_nothing_is_called_published() -> None:
    disk = SimulatedDisk()
    async with running_stage(ROOT, files=disk, **SETTINGS) as stage:
        writer = Writer(stage.connect())
        await writer.open(0)
        parts = [await writer.stage(0, part) for part in range(2)]
        left = disk.after_kill()
        now_ms = stage.clock.now_ms()
    log = left.image()[ROOT / "commitlog" / f"{0:020d}"]
    assert log is not None
    left.flip_bit(ROOT / "commitlog" / f"{0:020d}", 8 * log.index(b"UNIQ_KEY\x010-0-1-1"))

    async with running_stage(ROOT, clock=ManualClock(now_ms), files=left, **SETTINGS) as stage:
        writer = Writer(stage.connect(), name="second")
        answer = await try_to_publish(writer, 0, parts)

        # Recovery ends the log before damage at its end, or the checksum of the chunk tells.
        assert answer.code in (ResponseCode.ILLEGAL_OPERATION, ResponseCode.SYSTEM_ERROR)
        assert await readable(writer.client) <= Counter(ids_of(1))
