"""What POP keeps: a checkpoint that may be lost, retry topics that go with their topic, a full disk."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import copy_as_it_is, settle
from pop_stage import DEAD, GROUP, RETRY, SECOND_MS, PopStage, pop_stage

from pyromq.broker.pop.pop_asks import AckResult
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import MessageIllegal, ServiceNotAvailable
from pyromq.testing.disk import SimulatedDisk
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.offset_bodies import decode_reset_offsets

MINUTE_MS = 60_000
CHECKPOINT = Path("pop") / "inFlight.bin"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[PopStage]:
    async with pop_stage(tmp_path / "broker") as stage:
        yield stage


# The checkpoint


@pytest.mark.row("PO-26")
@pytest.mark.parametrize("damage", ["gone", "torn", "flipped", "empty", "of another log", "none"])
async def test_a_checkpoint_that_is_lost_is_made_again_from_the_log(
    stage: PopStage, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    member = stage.member()
    await stage.send(*[b"%d" % number for number in range(6)])
    await member.pop(count_max=2, invisible_ms=SECOND_MS)
    kept, done, other = await member.pop(count_max=3)
    await member.ack_all([done])
    await stage.pass_time(2 * SECOND_MS)
    path = stage.folder / CHECKPOINT
    await aeventually(path.exists)
    copy_as_it_is(stage.folder, tmp_path / "left")
    path = tmp_path / "left" / CHECKPOINT
    data = path.read_bytes()
    (path.parent / f"{path.name}.bak").unlink(missing_ok=True)
    if damage == "gone":
        path.unlink()
    else:
        new = {
            "torn": data[: len(data) // 2],
            "flipped": bytes([*data[:20], data[20] ^ 1, *data[21:]]),
            "empty": b"",
            "of another log": await checkpoint_of_another(tmp_path),
            "none": data,
        }[damage]
        path.write_bytes(new)

    async with pop_stage(tmp_path / "left", clock=stage.clock) as survivor:
        member = survivor.member()
        assert list(await member.ack(kept)) == [AckResult.OK]
        assert sorted(await member.await_bodies(3)) == [b"0", b"1", b"5"]
        await survivor.pass_time(MINUTE_MS)
        assert await member.bodies() == [other.body]
        assert await member.bodies() == []

    is_told = any("passed over" in record.message for record in caplog.records)
    assert is_told == (damage not in ("gone", "none"))


async def checkpoint_of_another(tmp_path: Path) -> bytes:
    """Return the checkpoint of a broker that did more."""
    async with pop_stage(tmp_path / "other") as other:
        member = other.member("others")
        await other.send(*[b"x" * 1_000 for _ in range(50)])
        await member.ack_all((await member.pop())[1:])
        await other.pass_time(2 * SECOND_MS)
        await aeventually((other.folder / CHECKPOINT).exists)
        return bytes(await asyncio.to_thread((other.folder / CHECKPOINT).read_bytes))


@pytest.mark.row("PO-26")
async def test_a_broker_that_nobody_pops_from_has_no_checkpoint(stage: PopStage) -> None:
    await stage.send(b"a")
    await stage.pass_time(MINUTE_MS)
    await stage.restart()

    assert not (stage.folder / "pop").exists()
    assert stage.broker.store.max_offset("rmq_sys_PYROMQ_POP", 0) == 0


async def test_an_idle_broker_writes_nothing(stage: PopStage) -> None:
    member = stage.member()
    await stage.send(b"a", b"b")
    await member.pop(invisible_ms=60 * MINUTE_MS)
    await stage.pass_time(2 * SECOND_MS)
    path = stage.folder / CHECKPOINT
    await aeventually(path.exists)
    before, end = path.stat().st_mtime_ns, stage.broker.max_position

    for _ in range(30):
        await stage.pass_time(SECOND_MS)

    assert (path.stat().st_mtime_ns, stage.broker.max_position) == (before, end)


# Deletions, resets


@pytest.mark.row("PO-26")
async def test_a_topic_that_is_deleted_takes_its_retries_along(stage: PopStage) -> None:
    member = stage.member(invisible_ms=SECOND_MS)
    await stage.send(b"old", b"in flight")
    await member.pop(count_max=1)
    await stage.pass_time(SECOND_MS)
    (_,) = await member.pop(count_max=1, invisible_ms=MINUTE_MS)
    assert RETRY in stage.broker.topics.configs

    answer = await stage.connect().request(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    await stage.pass_time(2 * MINUTE_MS)

    assert stage.broker.pop.in_flight_count == 0
    assert RETRY not in stage.broker.topics.configs
    await stage.restart()
    await stage.send(b"new")
    assert RETRY not in stage.broker.topics.configs
    assert await stage.member().bodies() == [b"new"]


@pytest.mark.row("PO-26")
async def test_a_group_that_is_deleted_leaves_nothing(stage: PopStage) -> None:
    member, other = stage.member(invisible_ms=SECOND_MS), stage.member("others")
    await stage.send(b"a", b"b")
    await member.pop()
    (kept, _) = await other.pop()
    await stage.pass_time(SECOND_MS)

    fields = {"groupName": GROUP, "removeOffset": True}
    answer = await stage.connect().request(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    await settle()

    assert RETRY not in stage.broker.topics.configs
    assert stage.broker.pop.popped_topics(GROUP) == set()
    assert stage.broker.pop.in_flight("others", "orders", 0) == 2
    await stage.restart()
    assert stage.broker.pop.popped_topics(GROUP) == set()
    assert list(await stage.member("others").ack(kept)) == [AckResult.OK]
    assert await stage.member().bodies() == [b"a", b"b"]


@pytest.mark.row("PO-15")
async def test_an_operator_resets_a_group_that_pops(stage: PopStage) -> None:
    member = stage.member()
    await stage.send(b"a")
    await stage.pass_time(10 * SECOND_MS)
    at_ms = stage.clock.now_ms()
    await stage.send(b"b", b"c")
    await member.ack_all(await member.pop())

    fields = {"topic": "orders", "group": GROUP, "timestamp": at_ms, "isForce": True}
    answer = await stage.connect().request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)

    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert {queue.queue_id: offset for queue, offset in decode_reset_offsets(answer.body).items()}[0] == 1
    assert await member.bodies() == [b"b", b"c"]


@pytest.mark.row("PO-15")
async def test_progress_that_somebody_else_moves_moves_the_pops(stage: PopStage) -> None:
    member = stage.member()
    await stage.send(b"a", b"b", b"c")
    await member.pop()

    fields = {"consumerGroup": GROUP, "topic": "orders", "queueId": 0, "commitOffset": 2}
    await stage.connect().request(RequestCode.UPDATE_CONSUMER_OFFSET, fields)

    assert await member.bodies() == [b"c"]
    await stage.pass_time(MINUTE_MS)
    assert await member.bodies() == [b"c"]


# Names


@pytest.mark.row("PO-09")
async def test_a_long_name_of_a_retry_topic_is_one_and_a_longer_is_refused(stage: PopStage) -> None:
    group = "g" * 120
    member = stage.member(group, invisible_ms=SECOND_MS)
    await stage.send(b"again")
    await member.pop()
    await stage.pass_time(SECOND_MS)
    (message,) = await member.pop()

    assert (message.body, message.attempt) == (b"again", 2)
    assert message.record.topic == f"%RETRY%{group}_orders"
    await stage.restart()
    assert list(await stage.member(group).ack(message)) == [AckResult.OK]
    with pytest.raises(MessageIllegal, match="use a shorter group"):
        await stage.member("g" * 250).pop()


@pytest.mark.row("PO-09")
async def test_with_the_second_version_both_retry_topics_are_read(tmp_path: Path) -> None:
    async with pop_stage(tmp_path) as stage:
        await stage.send(b"old")
        await stage.member(invisible_ms=SECOND_MS).pop()
        await stage.pass_time(SECOND_MS)
    async with pop_stage(tmp_path, enable_retry_topic_v2=True) as stage:
        member = stage.member(invisible_ms=SECOND_MS)
        await stage.send(b"new")
        bodies = await member.bodies()
        await stage.pass_time(SECOND_MS)
        await stage.pass_time(SECOND_MS)
        again = await member.pop()

        assert sorted(bodies) == [b"new", b"old"]
        topics = {message.body: message.record.topic for message in again}
        assert topics == {b"new": "%RETRY%readers+orders", b"old": RETRY}
        assert {message.handle.mark for message in again} == {1, 2}
        assert set(await member.ack(*again)) == {AckResult.OK}


# A disk that is full, or fails


@pytest.mark.row("PO-04")
async def test_what_cannot_be_journaled_is_not_answered(tmp_path: Path) -> None:
    disk = SimulatedDisk()
    async with pop_stage(Path("/store"), files=disk) as stage:
        member = stage.member()
        await stage.send(b"a", b"b")
        first, second = await member.pop()
        disk.fail_writes(under="commitlog")

        await member.ack(first)
        may_leave = stage.broker.pop._changes._turn.may_leave

        # The links of that turn are closed; later requests are refused with the reason.
        assert may_leave is not None
        assert not may_leave()
        await stage.pass_time(10 * SECOND_MS)
        # It is tried again, and nobody else's answers stay behind for that.
        assert stage.broker.pop._changes._turn.may_leave is None
        with pytest.raises(ServiceNotAvailable):
            await member.ack(second)
        with pytest.raises(ServiceNotAvailable):
            await member.pop()


@pytest.mark.row("PO-04")
async def test_a_group_consumes_on_while_the_disk_is_too_full_for_sends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with pop_stage(tmp_path) as stage:
        member = stage.member(invisible_ms=SECOND_MS)
        await stage.send(b"a", b"b")
        done, _ = await member.pop()
        stage.broker.store._full = "the disk is too full"

        assert list(await member.ack(done)) == [AckResult.OK]
        await stage.pass_time(SECOND_MS)
        waiting = await member.bodies()
        stage.broker.store._full = None
        await stage.pass_time(SECOND_MS)

        assert waiting == []
        assert await aeventually(member.bodies) == [b"b"]
    assert any("wait for their retries" in record.message for record in caplog.records)


async def test_a_message_whose_record_is_gone_ends(stage: PopStage) -> None:
    member = stage.member(invisible_ms=SECOND_MS)
    await stage.send(b"a")
    await member.pop()
    queue = stage.broker.store.queue("orders", 0)
    assert queue is not None
    queue.min_offset = 1

    await stage.pass_time(SECOND_MS)

    assert stage.broker.pop.in_flight_count == 0
    assert stage.stored_end(RETRY) == stage.stored_end(DEAD) == 0
    assert stage.progress() == 1
