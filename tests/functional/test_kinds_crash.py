"""Kinds of messages over a `kill -9`: nothing is lost, and what comes twice is known."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import ManualStage, Peer, after_a_crash, properties_of, running_stage, settle

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id
from pyromq.wire.record import decode_record

GROUP = "payers"
COMMIT, ROLLBACK = 8, 12
INTERVAL_MS = 60_000


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[ManualStage]:
    async with running_stage(tmp_path / "first") as stage:
        yield stage


async def send_half(client: Peer) -> Command:
    properties = {"TRAN_MSG": "true", "PGROUP": GROUP}
    return await client.send("orders", b"pay", group=GROUP, sys_flag=4, properties=properties)


async def end(client: Peer, half: Command, fate: int) -> Command:
    ext = half.ext or {}
    fields = {
        "producerGroup": GROUP,
        "tranStateTableOffset": ext["queueOffset"],
        "commitLogOffset": parse_offset_message_id(ext["msgId"]).position,
        "commitOrRollback": fate,
        "msgId": "ID",
    }
    return await client.request(RequestCode.END_TRANSACTION, fields)


async def await_check(client: Peer) -> Command:
    checks = await aeventually(lambda: client.asked_for(RequestCode.CHECK_TRANSACTION_STATE))
    assert isinstance(checks, list)
    return checks[-1]


async def test_a_delayed_message_that_waits_is_delivered(stage: ManualStage, tmp_path: Path) -> None:
    await stage.connect().send("orders", b"later", properties={"DELAY": "3"})

    async with after_a_crash(stage, tmp_path / "second") as survivor:
        survivor.clock.advance(10_000)

        (delivered,) = await survivor.connect().await_stored("orders")
        assert delivered.body == b"later"


async def test_what_was_delivered_since_the_progress_was_saved_comes_no_second_time(
    stage: ManualStage, tmp_path: Path
) -> None:
    client = stage.connect()
    await client.send("orders", b"later", properties={"DELAY": "1"})
    stage.clock.advance(1_000)
    await client.await_stored("orders")
    await client.send("orders", b"behind it", properties={"DELAY": "1"})

    async with after_a_crash(stage, tmp_path / "second") as survivor:
        survivor.clock.advance(1_000)
        delivered = await survivor.connect().await_stored("orders", 2)

        assert [record.body for record in delivered] == [b"later", b"behind it"]


async def test_over_a_file_of_rocketmq_what_was_delivered_since_comes_once_more(
    stage: ManualStage, tmp_path: Path
) -> None:
    client = stage.connect()
    await client.send("orders", b"later", properties={"DELAY": "1"})
    stage.clock.advance(1_000)
    await client.await_stored("orders")
    (stage.folder / "config" / "delayOffset.json").write_text('{"offsetTable":{}}')

    async with after_a_crash(stage, tmp_path / "second") as survivor:
        delivered = await survivor.connect().await_stored("orders", 2)

        assert [record.body for record in delivered] == [b"later", b"later"]


async def test_messages_that_are_alike_are_all_delivered_and_none_twice(
    stage: ManualStage, tmp_path: Path
) -> None:
    """Nothing tells them apart, not even an id: only how many of them there are counts."""
    client, born_at_ms = stage.connect(), stage.clock.now_ms()
    for wait_ms in (400, 400, 0):
        await client.send("orders", properties={"DELAY": "1", "UNIQ_KEY": "same"}, bornTimestamp=born_at_ms)
        stage.clock.advance(wait_ms)
    stage.clock.advance(600)
    await client.await_stored("orders", 2)

    async with after_a_crash(stage, tmp_path / "second") as survivor:
        client = survivor.connect()
        await client.send("orders", b"marker", properties={"DELAY": "1"})
        survivor.clock.advance(1_000)
        delivered = await client.await_stored("orders", 4)

        assert [record.body for record in delivered] == [b"hello"] * 3 + [b"marker"]


async def test_what_was_delivered_before_it_was_saved_does_not(stage: ManualStage, tmp_path: Path) -> None:
    client = stage.connect()
    await client.send("orders", b"later", properties={"DELAY": "1"})
    stage.clock.advance(1_000)
    await client.await_stored("orders")
    stage.clock.advance(10_000)
    await aeventually((stage.folder / "config" / "delayOffset.json").exists)

    async with after_a_crash(stage, tmp_path / "second") as survivor:
        survivor.clock.advance(10_000)
        await settle()

        assert len(await survivor.connect().stored("orders")) == 1


async def test_a_message_that_was_sent_back_is_retried(stage: ManualStage, tmp_path: Path) -> None:
    client = stage.connect()
    sent = await client.send("orders", b"again")
    position = parse_offset_message_id((sent.ext or {})["msgId"]).position
    fields = {"offset": position, "group": "shop", "delayLevel": 0}
    await client.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)

    async with after_a_crash(stage, tmp_path / "second") as survivor:
        survivor.clock.advance(10_000)
        client = survivor.connect()
        await client.heartbeat(consumer="shop")

        (retried,) = await client.await_stored("%RETRY%shop")
        assert retried.body == b"again"


async def test_an_undecided_transaction_is_asked_about(stage: ManualStage, tmp_path: Path) -> None:
    await send_half(stage.connect())

    async with after_a_crash(stage, tmp_path / "second") as survivor:
        client = survivor.connect()
        await client.heartbeat(producer=GROUP)
        survivor.clock.advance(INTERVAL_MS)

        assert decode_record((await await_check(client)).body).body == b"pay"


@pytest.mark.parametrize(("fate", "visible_count"), [(COMMIT, 1), (ROLLBACK, 0)])
async def test_a_decided_transaction_stays_decided(
    stage: ManualStage, tmp_path: Path, fate: int, visible_count: int
) -> None:
    client = stage.connect()
    half = await send_half(client)
    await end(client, half, fate)

    async with after_a_crash(stage, tmp_path / "second") as survivor:
        client = survivor.connect()
        await client.heartbeat(producer=GROUP)

        assert (await end(client, half, COMMIT)).code == ResponseCode.SYSTEM_ERROR
        survivor.clock.advance(INTERVAL_MS)
        await settle()
        assert client.asked_for(RequestCode.CHECK_TRANSACTION_STATE) == []
        assert len(await client.stored("orders")) == visible_count


async def test_a_copy_whose_progress_was_not_saved_is_not_asked_about_twice(
    stage: ManualStage, tmp_path: Path
) -> None:
    client = stage.connect()
    await client.heartbeat(producer=GROUP)
    half = await send_half(client)
    stage.clock.advance(INTERVAL_MS)
    await await_check(client)

    async with after_a_crash(stage, tmp_path / "second") as survivor:
        client = survivor.connect()
        await client.heartbeat(producer=GROUP)
        survivor.clock.advance(INTERVAL_MS)
        check = await await_check(client)
        await settle()

        assert len(client.asked_for(RequestCode.CHECK_TRANSACTION_STATE)) == 1
        assert properties_of(decode_record(check.body))["TRANSACTION_CHECK_TIMES"] == "2"
        assert (await end(client, half, COMMIT)).code == ResponseCode.SUCCESS
        assert len(await client.stored("orders")) == 1
