"""Popped messages when a master is lost, and what an acknowledgement waits for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from kinds_stage import ManualStage, settle
from pop_stage import (
    DEAD,
    GROUP,
    SECOND_MS,
    Member,
    PoppedMessage,
    PopStage,
    answered,
    messages_of,
    pop_stage,
)
from reign_stage import ReignStage, reign_of
from slave_stage import running_pair, successor
from staged_files import StagedFiles

from pyromq.broker.pop.pop_asks import AckResult, PopAsk
from pyromq.errors import ServiceNotAvailable
from pyromq.testing.waiting import aeventually

MINUTE_MS = 60_000


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[PopStage]:
    async with pop_stage(tmp_path / "master") as stage:
        yield stage


def member_of(stage: ManualStage, **ask: object) -> Member:
    return Member(stage, **ask)  # type: ignore[arg-type]


async def pass_time(stage: ManualStage, ms: int) -> None:
    stage.clock.advance(ms)
    await settle()


@pytest.mark.row("PO-02", "PO-04")
async def test_a_replica_that_is_master_now_knows_the_same_handles(stage: PopStage, tmp_path: Path) -> None:
    member = stage.member()
    await stage.send(b"acknowledged", b"in flight", b"changed", b"buried", b"failed once")
    await member.pop(count_max=4, invisible_ms=10 * MINUTE_MS)
    messages = await member.pop(invisible_ms=SECOND_MS)
    await stage.pass_time(SECOND_MS)
    stage.broker.pop.reset(GROUP, "orders", 0, 0)
    await stage.pass_time(1)
    messages = await member.pop()
    acknowledged, in_flight, changed, buried, *_ = messages
    await member.ack_all([acknowledged])
    new = await member.changed(changed, 10 * MINUTE_MS)
    await member.bury(buried)

    async with successor(stage, tmp_path / "slave") as master:
        member = member_of(master)
        assert list(await member.ack(in_flight, changed, new)) == [
            AckResult.OK,
            AckResult.EXPIRED,
            AckResult.OK,
        ]
        await pass_time(master, 11 * MINUTE_MS)
        rest = sorted(await member.await_bodies(1))
        await pass_time(master, 11 * MINUTE_MS)

        assert set(rest) == {b"failed once"}
        assert await member.bodies() == []
        assert [dead.body for dead in await master.connect().stored(DEAD)] == [b"buried"]


@pytest.mark.row("PO-04")
@pytest.mark.parametrize("is_before", [True, False], ids=["revived before", "revived after"])
async def test_what_comes_again_does_so_once_whichever_replica_is_master(
    stage: PopStage, tmp_path: Path, *, is_before: bool
) -> None:
    member = stage.member(invisible_ms=SECOND_MS)
    await stage.send(b"again")
    await member.pop()
    if is_before:
        await stage.pass_time(SECOND_MS)

    async with successor(stage, tmp_path / "slave") as master:
        member = member_of(master)
        if not is_before:
            await pass_time(master, SECOND_MS)
        messages: list[PoppedMessage] = await aeventually(member.pop)
        await member.ack_all(messages)
        await pass_time(master, 10 * MINUTE_MS)

        assert [(message.body, message.attempt) for message in messages] == [(b"again", 2)]
        assert await member.bodies() == []


@pytest.mark.row("PO-19")
async def test_a_batch_in_order_is_known_to_the_next_master(stage: PopStage, tmp_path: Path) -> None:
    member = stage.member(is_fifo=True)
    await stage.send(b"a", b"b")
    await member.pop(attempt_id="one")
    await stage.pass_time(MINUTE_MS)
    first, second = await member.pop(attempt_id="two")
    await member.ack_all([first])

    async with successor(stage, tmp_path / "slave") as master:
        member = member_of(master, is_fifo=True)
        assert await member.pop(attempt_id="three") == []
        again = await member.pop(attempt_id="two")

        assert [(message.body, message.attempt) for message in again] == [(b"b", 2)]
        assert second.attempt == 2


@pytest.mark.row("PO-02")
async def test_a_slave_follows_what_is_popped_and_is_master_when_told(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await pair.master.connect().send("orders", b"acknowledged")
        await pair.master.connect().send("orders", b"in flight")
        room = pair.master.broker.pop
        ask = PopAsk(GROUP, "orders")
        popped = await answered(room.pop(ask, 0))
        done, kept = messages_of(popped)
        assert list(await answered(room.ack(GROUP, "orders", [done.handle]))) == [AckResult.OK]
        await pair.caught_up()
        follower = pair.slave.broker.kinds.popped
        assert pair.slave.broker.durability is not None
        await follower.follow(pair.slave.broker.durability)
        assert follower.table.count == 1
        # What a slave knows is on its disk, too.
        assert (pair.slave.folder / "pop" / "inFlight.bin").exists()

        await pair.stop(pair.master)
        await pair.promote()

        room = pair.master.broker.pop
        assert list(await answered(room.ack(GROUP, "orders", [kept.handle]))) == [AckResult.OK]
        assert (await answered(room.pop(ask, 0))).parts == []
        assert room.in_flight_count == 0


# What is waited for


@pytest.fixture
def files() -> StagedFiles:
    return StagedFiles()


Operation = Callable[[Member, PoppedMessage], Awaitable[object]]
OPERATIONS: dict[str, Operation] = {
    "ack": lambda member, message: member.ack(message),
    "change": lambda member, message: member.change(message, MINUTE_MS),
    "bury": lambda member, message: member.bury(message),
}


@pytest.mark.row("PO-02")
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_under_synchronous_flush_it_is_answered_when_the_disk_has_it(
    tmp_path: Path, files: StagedFiles, operation: str
) -> None:
    async with pop_stage(tmp_path, files=files, flush_disk_type="SYNC_FLUSH") as stage:
        member = stage.member()
        await stage.send(b"first", b"second")
        # The topic of dead letters is made and on disk before anything is counted.
        first, second = await member.pop()
        await member.bury(first)
        before = files.log_syncs
        with files.held_syncs():
            asked = asyncio.ensure_future(OPERATIONS[operation](member, second))
            await aeventually(lambda: files.log_syncs == before + 1)
            await settle()
            assert not asked.done()

        assert await asked in ([AckResult.OK], AckResult.OK) or operation == "change"


async def test_under_synchronous_flush_a_pop_waits_for_no_disk(tmp_path: Path, files: StagedFiles) -> None:
    async with pop_stage(tmp_path, files=files, flush_disk_type="SYNC_FLUSH") as stage:
        await stage.send(b"first")
        with files.held_syncs():
            assert await stage.member().bodies() == [b"first"]


async def test_under_synchronous_flush_nothing_is_popped_that_the_disk_does_not_have(
    tmp_path: Path, files: StagedFiles
) -> None:
    async with pop_stage(tmp_path, files=files, flush_disk_type="SYNC_FLUSH") as stage:
        member = stage.member()
        await stage.send(b"old")
        await member.ack_all(await member.pop())
        held = await member.hold()
        before = files.log_syncs
        with files.held_syncs():
            sending = asyncio.ensure_future(stage.send(b"new"))
            await aeventually(lambda: files.log_syncs > before and stage.stored_end("orders") == 2)
            await settle()
            assert not held.done()
            assert await stage.member().bodies() == []

        assert [message.body for message in await held] == [b"new"]
        await sending


@pytest.mark.row("PO-02")
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_no_operation_is_answered_that_the_in_sync_replica_does_not_have(
    tmp_path: Path, operation: str
) -> None:
    async with reign_of(tmp_path, role="SYNC_MASTER", flush="ASYNC_FLUSH") as stage:
        member, message = await popped_of(stage)
        stage.wait_for_replica()

        asked = asyncio.ensure_future(OPERATIONS[operation](member, message))
        await settle()
        assert not asked.done()
        stage.replica_has_all()

        assert await asked


@pytest.mark.row("PO-02")
@pytest.mark.parametrize("operation", [*OPERATIONS, "pop"])
@pytest.mark.parametrize("role", ["ASYNC_MASTER", "SYNC_MASTER"])
async def test_nothing_is_answered_once_the_lease_is_over(tmp_path: Path, operation: str, role: str) -> None:
    async with reign_of(tmp_path, role=role, flush="ASYNC_FLUSH") as stage:
        member, message = await popped_of(stage)
        stage.end_lease()

        with pytest.raises(ServiceNotAvailable, match="master"):
            await {**OPERATIONS, "pop": pop}[operation](member, message)


async def pop(member: Member, _message: PoppedMessage) -> object:
    return await member.pop()


async def popped_of(stage: ReignStage) -> tuple[Member, PoppedMessage]:
    """Pop the message that the stage begins with, as soon as it may be read."""
    member = member_of(stage)

    async def look() -> list[PoppedMessage]:
        stage.replica_has_all()
        return await member.pop()

    (message,) = await aeventually(look)
    return member, message
