"""Queues that a group pops in order: one batch at a time, from the first message that is not acknowledged."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from kinds_stage import settle
from pop_stage import DEAD, GROUP, RETRY, SECOND_MS, Member, PoppedMessage, PopStage, pop_stage

from pyromq.broker.pop.pop_asks import AckResult, PopStatus
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.receipt_handle import ORDERED_QUEUE_ID

HALF_A_MINUTE_MS = 30_000


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[PopStage]:
    async with pop_stage(tmp_path / "broker") as stage:
        yield stage


@pytest.fixture
def member(stage: PopStage) -> Member:
    return stage.member(is_fifo=True, invisible_ms=HALF_A_MINUTE_MS)


def seen(messages: Sequence[PoppedMessage]) -> list[tuple[bytes, int]]:
    return [(message.body, message.attempt) for message in messages]


@pytest.mark.row("PO-16")
async def test_a_queue_waits_until_its_batch_is_acknowledged(stage: PopStage, member: Member) -> None:
    await stage.send(b"a", b"b", b"c")
    batch = await member.pop(count_max=2)
    held = await member.hold()

    await member.ack_all(batch[:1])
    assert not held.done()
    await member.ack_all(batch[1:])

    assert seen(batch) == [(b"a", 1), (b"b", 1)]
    assert {message.handle.revive_queue_id for message in batch} == {ORDERED_QUEUE_ID}
    assert seen(await held) == [(b"c", 1)]


@pytest.mark.row("PO-16")
async def test_a_queue_is_free_when_the_time_of_its_batch_is_up(stage: PopStage, member: Member) -> None:
    await stage.send(b"a", b"b")
    await member.pop()
    held = await member.hold(60_000)

    await stage.pass_time(HALF_A_MINUTE_MS - 1)
    assert not held.done()
    await stage.pass_time(1)

    assert seen(await held) == [(b"a", 2), (b"b", 2)]
    assert RETRY not in stage.broker.topics.configs


@pytest.mark.row("PO-16")
async def test_three_consumers_keep_the_order_of_each_queue(stage: PopStage, member: Member) -> None:
    for queue_id in range(4):
        bodies = [b"%d-%02d" % (queue_id, number) for number in range(20)]
        await stage.send(*bodies, queue_id=queue_id)
    done: list[bytes] = []

    async def consume() -> None:
        while len(done) < 80:
            for message in await member.pop(wait_ms=20_000, count_max=3):
                done.append(message.body)
                await asyncio.sleep(0)
                await member.ack_all([message])

    await asyncio.wait_for(
        asyncio.wait(
            [asyncio.ensure_future(consume()) for _ in range(3)], return_when=asyncio.FIRST_COMPLETED
        ),
        20,
    )
    for queue_id in range(4):
        of_queue = [body for body in done if body.startswith(b"%d-" % queue_id)]
        assert of_queue == sorted(of_queue)
        assert len(of_queue) == 20


@pytest.mark.row("PO-17")
async def test_who_acknowledges_all_but_the_first_gets_all_again(stage: PopStage, member: Member) -> None:
    await stage.send(b"a", b"b", b"c")
    batch = await member.pop()

    await member.ack_all(batch[1:])
    await stage.pass_time(HALF_A_MINUTE_MS)

    assert stage.progress() == 0
    assert seen(await member.pop()) == [(b"a", 2), (b"b", 2), (b"c", 2)]


@pytest.mark.row("PO-17")
async def test_who_acknowledges_the_first_gets_the_rest_again(stage: PopStage, member: Member) -> None:
    await stage.send(b"a", b"b", b"c")
    batch = await member.pop()

    await member.ack_all(batch[:1])
    await stage.pass_time(HALF_A_MINUTE_MS)

    assert stage.progress() == 1
    assert seen(await member.pop()) == [(b"b", 2), (b"c", 2)]


@pytest.mark.row("PO-18")
async def test_the_same_attempt_gets_the_same_batch(stage: PopStage, member: Member) -> None:
    await stage.send(b"a", b"b")
    first = await member.pop(attempt_id="one")
    await stage.pass_time(5)

    other = await member.try_pop(attempt_id="other")
    again = await member.pop(attempt_id="one")
    late = list(await member.ack(first[0]))
    await member.ack_all(again)

    assert (other.status, list(other.parts)) == (PopStatus.NOTHING, [])
    assert seen(again) == seen(first) == [(b"a", 1), (b"b", 1)]
    assert again[0].handle.popped_at_ms == first[0].handle.popped_at_ms + 5
    # It is answered while its own time runs, and does nothing.
    assert late == [AckResult.OK]
    assert stage.progress() == 2


async def test_an_old_handle_of_a_batch_expires(stage: PopStage, member: Member) -> None:
    await stage.send(b"a")
    (old,) = await member.pop()
    await stage.pass_time(HALF_A_MINUTE_MS)
    (new,) = await member.pop()

    assert list(await member.ack(old)) == [AckResult.EXPIRED]
    assert await member.change(old, SECOND_MS) is AckResult.EXPIRED
    assert [*await member.ack(new), *await member.ack(new)] == [AckResult.OK, AckResult.OK]


@pytest.mark.row("PO-19")
async def test_attempts_count_over_redeliveries_and_a_restart(stage: PopStage) -> None:
    await stage.send(b"a")
    attempts = []
    for restarts in (False, True, False, True):
        member = stage.member(is_fifo=True, invisible_ms=HALF_A_MINUTE_MS)
        (message,) = await member.pop()
        attempts.append(message.attempt)
        if restarts:
            await stage.restart()
        await stage.pass_time(HALF_A_MINUTE_MS)

    assert attempts == [1, 2, 3, 4]


@pytest.mark.row("PO-19")
async def test_a_change_of_one_message_delays_its_queue(stage: PopStage, member: Member) -> None:
    await stage.send(b"a", b"b")
    first, _ = await member.pop()

    changed = await member.changed(first, 40 * SECOND_MS)
    held = await member.hold(120_000)
    await stage.pass_time(39_999)
    assert not held.done()
    await stage.pass_time(1)

    assert changed.handle.popped_at_ms == first.handle.popped_at_ms
    assert changed.handle.invisible_ms == 40 * SECOND_MS
    assert seen(await held) == [(b"a", 2), (b"b", 2)]


@pytest.mark.row("PO-19")
async def test_a_shorter_time_for_all_frees_the_queue_sooner(stage: PopStage, member: Member) -> None:
    await stage.send(b"a", b"b")
    for message in await member.pop():
        await member.changed(message, 3 * SECOND_MS)
    held = await member.hold(120_000)

    await stage.pass_time(3 * SECOND_MS)

    assert seen(await held) == [(b"a", 2), (b"b", 2)]


@pytest.mark.row("PO-07", "PO-19")
async def test_a_message_that_failed_too_often_leaves_its_queue(stage: PopStage, member: Member) -> None:
    stage.broker.groups.table.put(SubscriptionGroupConfig(group_name=GROUP, retry_max_times=1))
    await stage.send(b"poison", b"next")
    for _ in range(2):
        await member.pop(buries=True, count_max=1)
        await stage.pass_time(HALF_A_MINUTE_MS)

    last = await member.try_pop(buries=True, count_max=1)
    following = await member.pop(buries=True)

    assert last.status is PopStatus.NO_MATCH
    assert [dead.body for dead in await stage.connect().stored(DEAD)] == [b"poison"]
    assert seen(following) == [(b"next", 1)]


async def test_a_client_buries_the_first_and_the_rest_goes_on(stage: PopStage, member: Member) -> None:
    await stage.send(b"poison", b"next")
    poison, following = await member.pop()

    assert await member.bury(poison) is AckResult.OK
    await member.ack_all([following])
    await settle()

    assert [dead.body for dead in await stage.connect().stored(DEAD)] == [b"poison"]
    assert stage.progress() == 2


@pytest.mark.row("PO-15")
async def test_a_reset_frees_a_queue_that_is_popped_in_order(stage: PopStage, member: Member) -> None:
    await stage.send(b"a", b"b")
    batch = await member.pop()
    await stage.pass_time(1)

    stage.broker.pop.reset(GROUP, "orders", 0, 1)

    assert seen(await member.pop()) == [(b"b", 1)]
    assert list(await member.ack(batch[1])) == [AckResult.OK]
    assert stage.progress() == 1


async def test_a_group_that_gives_up_order_loses_nothing(stage: PopStage, member: Member) -> None:
    await stage.send(b"a", b"b", b"c")
    batch = await member.pop(count_max=2)
    await member.ack_all(batch[:1])

    unordered = stage.member()
    rest = await unordered.pop()
    await unordered.ack_all(rest)
    await stage.pass_time(HALF_A_MINUTE_MS)

    assert [message.body for message in rest] == [b"c"]
    assert await unordered.bodies() == [b"b"]


async def test_a_restart_keeps_a_queue_blocked(stage: PopStage, member: Member) -> None:
    await stage.send(b"a", b"b")
    batch = await member.pop()
    await member.ack_all(batch[:1])
    await stage.restart()
    member = stage.member(is_fifo=True)

    assert await member.pop() == []
    await member.ack_all(batch[1:])
    await stage.send(b"c")

    assert seen(await member.pop()) == [(b"c", 1)]
