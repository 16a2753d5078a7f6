"""An answer to a write leaves when disk, replicas and lease let it: every kind, flush and role, both ways."""

import asyncio
from pathlib import Path

import pytest
from reign_stage import FLUSHES, KINDS, ROLES, outcome, reign_of

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.waiting import aeventually

pytestmark = pytest.mark.row("HA-02")

every_kind = pytest.mark.parametrize("kind", KINDS)
every_flush = pytest.mark.parametrize("flush", FLUSHES)
every_role = pytest.mark.parametrize("role", ROLES)


@every_kind
@every_flush
async def test_no_write_is_acknowledged_that_the_in_sync_replica_does_not_have(
    tmp_path: Path, kind: str, flush: str
) -> None:
    async with reign_of(tmp_path, role="SYNC_MASTER", flush=flush) as stage:
        write = await KINDS[kind](stage, stage.connect())
        stage.wait_for_replica()
        before = stage.broker.max_position

        writing = asyncio.ensure_future(write())
        await stage.grown(writing, before)

        async def has_given_up() -> bool:
            stage.clock.advance(1)
            return writing.done()

        # The replica never gets it, so all that comes is that the waiting had an end.
        await aeventually(has_given_up, what="the wait for the replica ends")
        answer = await writing
        assert answer.code in (ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SERVICE_NOT_AVAILABLE)
        assert answer.code == ResponseCode.FLUSH_SLAVE_TIMEOUT or "ask again" in (answer.remark or "")


@every_kind
@every_flush
async def test_a_write_is_acknowledged_once_the_in_sync_replica_has_it(
    tmp_path: Path, kind: str, flush: str
) -> None:
    async with reign_of(tmp_path, role="SYNC_MASTER", flush=flush) as stage:
        write = await KINDS[kind](stage, stage.connect())
        stage.wait_for_replica()

        writing = asyncio.ensure_future(write())

        def is_done() -> bool:
            stage.replica_has_all()
            return writing.done()

        await aeventually(is_done, what="it is acknowledged")
        answer = await writing
        assert answer.code == ResponseCode.SUCCESS, answer.remark


@every_kind
@every_role
async def test_no_write_is_acknowledged_when_the_lease_ends_during_the_sync(
    tmp_path: Path, kind: str, role: str
) -> None:
    async with reign_of(tmp_path, role=role, flush="SYNC_FLUSH") as stage:
        write = await KINDS[kind](stage, stage.connect())
        syncs, before = stage.files.log_syncs, stage.broker.max_position
        with stage.files.held_syncs():
            writing = asyncio.ensure_future(write())
            await stage.grown(writing, before)
            await aeventually(lambda: stage.files.log_syncs > syncs or writing.done())
            stage.end_lease()

        answer = await writing
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "no longer the master" in (answer.remark or "")


@every_kind
@every_flush
@every_role
async def test_no_write_is_acknowledged_when_the_lease_ends_while_the_log_is_written(
    tmp_path: Path, kind: str, flush: str, role: str
) -> None:
    async with reign_of(tmp_path, role=role, flush=flush) as stage:
        write = await KINDS[kind](stage, stage.connect())
        stage.files.on_log_write = stage.end_lease

        code = await outcome(write())

        assert stage.files.on_log_write is None
        assert code == ResponseCode.SERVICE_NOT_AVAILABLE


@every_kind
@every_flush
@every_role
async def test_no_answer_leaves_a_turn_that_stood_still_until_the_lease_was_over(
    tmp_path: Path, kind: str, flush: str, role: str
) -> None:
    """The lease was looked at, the answer was given, and the process was stopped before it was written."""
    async with reign_of(tmp_path, role=role, flush=flush) as stage:
        write = await KINDS[kind](stage, stage.connect())
        # Behind all other steps: the next thing in the turn is to write.
        last = stage.broker._turn.step()

        def end_lease_when_vouched() -> None:
            if stage.lease._has_vouched:
                stage.end_lease()
            else:
                last.due()

        last.run = end_lease_when_vouched
        stage.files.on_log_write = last.due

        code = await outcome(write())

        assert not stage.lease.is_held
        assert code in (None, ResponseCode.SERVICE_NOT_AVAILABLE)


@every_kind
@every_flush
async def test_a_master_with_its_lease_acknowledges_every_kind(tmp_path: Path, kind: str, flush: str) -> None:
    async with reign_of(tmp_path, role="ASYNC_MASTER", flush=flush) as stage:
        write = await KINDS[kind](stage, stage.connect())

        assert await outcome(write()) == ResponseCode.SUCCESS


@every_flush
@every_role
async def test_who_does_not_wait_for_the_disk_is_refused_by_a_master_without_its_lease_too(
    tmp_path: Path, flush: str, role: str
) -> None:
    async with reign_of(tmp_path, role=role, flush=flush) as stage:
        client = stage.connect()
        stage.files.on_log_write = stage.end_lease

        answer = await client.send("orders", properties={"WAIT": "false"})

        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE


async def test_after_the_lease_a_refusal_leaves_like_any_answer(tmp_path: Path) -> None:
    async with reign_of(tmp_path, role="ASYNC_MASTER", flush="ASYNC_FLUSH") as stage:
        client = stage.connect()
        await client.send("orders")
        stage.end_lease()

        answers = [await client.send("orders") for _ in range(3)]

        assert {answer.code for answer in answers} == {ResponseCode.SERVICE_NOT_AVAILABLE}


@every_role
async def test_no_change_of_a_table_is_acknowledged_when_the_lease_ends_while_it_is_saved(
    tmp_path: Path, role: str
) -> None:
    async with reign_of(tmp_path, role=role, flush="ASYNC_FLUSH") as stage:
        loop, note = asyncio.get_running_loop(), stage.files.note

        def end_lease_while_saving(kind: str, path: Path) -> None:
            note(kind, path)
            if path.name.startswith("topics.json"):
                loop.call_soon_threadsafe(stage.end_lease)

        stage.files.note = end_lease_while_saving  # type: ignore[method-assign]
        fields = {
            "topic": "new",
            "defaultTopic": "TBW102",
            "readQueueNums": 4,
            "writeQueueNums": 4,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        }

        code = await outcome(stage.connect().request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields))

        assert code in (ResponseCode.SERVICE_NOT_AVAILABLE, None)
        assert any(path.name.startswith("topics.json") for _, path in stage.files.operations)
