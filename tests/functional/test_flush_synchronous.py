"""SYNC_FLUSH: a send is answered once the disk has it, and one sync does for many."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import ManualStage, Peer, running_stage
from staged_files import StagedFiles

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.requests import batch_body, send_v2_fields
from pyromq.testing.waiting import aeventually


@pytest.fixture
def files() -> StagedFiles:
    return StagedFiles()


@pytest.fixture
async def stage(tmp_path: Path, files: StagedFiles) -> AsyncIterator[ManualStage]:
    async with running_stage(tmp_path, files=files, flush_disk_type="SYNC_FLUSH") as stage:
        # The topic is made and on disk before anything is counted.
        await stage.connect().send("orders")
        yield stage


async def end_of(client: Peer, topic: str = "orders") -> int:
    answer = await client.request(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": 0})
    return int((answer.ext or {})["offset"])


def stored_end(stage: ManualStage, topic: str = "orders") -> int:
    return stage.broker.store.max_offset(topic, 0)


def begin(client: Peer, **properties: str) -> "asyncio.Task[object]":
    return asyncio.ensure_future(client.send("orders", properties=properties))


async def codes_of(sends: "list[asyncio.Task[object]]") -> set[int]:
    return {answer.code for answer in await asyncio.gather(*sends)}  # type: ignore[attr-defined]


@pytest.mark.row("FL-01", "FL-02")
async def test_a_send_is_answered_when_the_sync_that_covers_it_has_ended(
    stage: ManualStage, files: StagedFiles
) -> None:
    client = stage.connect()
    before = files.log_syncs
    with files.held_syncs():
        send = begin(client)
        await aeventually(lambda: files.log_syncs == before + 1)
        # The broker has stored it, shows it to nobody and answers others; the sender still waits.
        assert stored_end(stage) == 2
        assert await end_of(client) == 1
        assert not send.done()

    assert await codes_of([send]) == {ResponseCode.SUCCESS}
    # Who was told that it is safe can read it.
    assert await end_of(client) == 2


@pytest.mark.row("FL-02")
async def test_a_held_pull_gets_a_message_when_the_disk_has_it(
    stage: ManualStage, files: StagedFiles
) -> None:
    """After a power cut its offset would be another message's, which this reader would never see."""
    client, reader = stage.connect(), stage.connect("reader")
    before = files.log_syncs
    pull = asyncio.ensure_future(reader.pull("orders", offset=1, hold_ms=60_000))
    await aeventually(lambda: stage.broker.delivery.arrivals.held_count == 1)
    with files.held_syncs():
        # Of the second the kernel knows the queue: it has the shortcut.
        sends = [begin(client), begin(client)]
        await aeventually(lambda: files.log_syncs == before + 1 and stored_end(stage) == 3)
        assert await end_of(client) == 1
        assert not pull.done()

    assert (await pull).code == ResponseCode.SUCCESS
    assert await codes_of(sends) == {ResponseCode.SUCCESS}


async def test_a_pull_that_was_learnt_shows_no_message_that_the_disk_does_not_have(
    stage: ManualStage, files: StagedFiles
) -> None:
    client = stage.connect()
    # The kernel answers the next pulls like these, if there is one.
    assert [len(await client.stored("orders")) for _ in range(3)] == [1, 1, 1]
    before = files.log_syncs
    with files.held_syncs():
        send = begin(client)
        await aeventually(lambda: files.log_syncs == before + 1)
        assert len(await client.stored("orders")) == 1

    assert await codes_of([send]) == {ResponseCode.SUCCESS}
    assert len(await client.stored("orders")) == 2


@pytest.mark.row("FL-02")
async def test_many_senders_share_one_sync(stage: ManualStage, files: StagedFiles) -> None:
    peers = [stage.connect(f"client-{number}") for number in range(5)]
    before = files.log_syncs
    with files.held_syncs():
        first = begin(peers[0])
        await aeventually(lambda: files.log_syncs == before + 1)
        later = [begin(peer) for peer in peers for _ in range(40)]
        await aeventually(lambda: stored_end(stage) == 202)

    assert await codes_of([first, *later]) == {ResponseCode.SUCCESS}
    # One sync for the first, and one for the two hundred that came while it ran.
    assert files.log_syncs == before + 2


@pytest.mark.row("FL-02")
async def test_a_disk_that_is_too_slow_is_said_with_the_message_stored(
    tmp_path: Path, files: StagedFiles
) -> None:
    settings = {"flush_disk_type": "SYNC_FLUSH", "sync_flush_timeout": 20}
    async with running_stage(tmp_path, files=files, **settings) as stage:
        client = stage.connect()
        await client.send("orders")
        with files.held_syncs():
            slow = await client.send("orders", b"slow")

        assert slow.code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert (slow.ext or {})["queueOffset"] == "1"

        async def are_read() -> bool:
            return [record.body for record in await client.stored("orders")] == [b"hello", b"slow"]

        await aeventually(are_read)

        async def is_in_time() -> bool:
            return (await client.send("orders")).code == ResponseCode.SUCCESS

        # Nothing is broken: as soon as the disk is quick enough, they are answered in time.
        await aeventually(is_in_time)


@pytest.mark.row("FL-06")
async def test_who_does_not_wait_is_answered_before_the_disk_has_it(
    stage: ManualStage, files: StagedFiles
) -> None:
    client = stage.connect()
    with files.held_syncs():
        answer = await client.send("orders", properties={"WAIT": "false"})

    assert answer.code == ResponseCode.SUCCESS


@pytest.mark.row("FL-06")
async def test_what_nobody_waits_for_is_brought_to_the_disk_at_once_all_the_same(
    stage: ManualStage, files: StagedFiles
) -> None:
    """It used to stay in memory for up to ten seconds; Apache brings it to the disk in ten milliseconds."""
    before = files.log_syncs

    await stage.connect().send("orders", properties={"WAIT": "false"})

    await aeventually(lambda: files.log_syncs > before)


@pytest.mark.row("FL-02")
async def test_a_batch_waits_for_the_disk_as_one(stage: ManualStage, files: StagedFiles) -> None:
    client = stage.connect()
    before = files.log_syncs
    fields = send_v2_fields("orders", batch=True)
    body = batch_body([b"one", b"two", b"three"])
    with files.held_syncs():
        send = asyncio.ensure_future(client.request(RequestCode.SEND_BATCH_MESSAGE, fields, body=body))
        await aeventually(lambda: files.log_syncs == before + 1)
        assert not send.done()

    answer = await send
    assert (answer.code, len((answer.ext or {})["msgId"].split(","))) == (ResponseCode.SUCCESS, 3)
    assert files.log_syncs == before + 1


@pytest.mark.row("FL-02")
async def test_while_the_disk_is_slow_everybody_else_is_served(
    stage: ManualStage, files: StagedFiles
) -> None:
    """The sync is in a thread, and gives the interpreter back while it waits."""
    client = stage.connect()
    with files.held_syncs():
        send = begin(client)
        other = stage.connect("other")
        await other.heartbeat(producer="producers", consumer="readers")
        assert [record.body for record in await other.stored("orders")][:1] == [b"hello"]
        commit = {"consumerGroup": "readers", "topic": "orders", "queueId": 0, "commitOffset": 1}
        assert (await other.request(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == ResponseCode.SUCCESS
        assert not send.done()

    assert await codes_of([send]) == {ResponseCode.SUCCESS}
