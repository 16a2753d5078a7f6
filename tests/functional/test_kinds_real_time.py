"""The shortest waits once more, with the machine's own clock."""

from pathlib import Path

import pytest
from kinds_stage import running_real_stage

from pyromq.codes import RequestCode
from pyromq.testing.waiting import aeventually
from pyromq.wire.message_id import parse_offset_message_id
from pyromq.wire.record import decode_record


@pytest.mark.row("DE-08", "DE-09")
async def test_a_message_of_level_one_is_delivered_after_a_second(tmp_path: Path) -> None:
    async with running_real_stage(tmp_path) as stage:
        client = stage.connect()
        await client.send("orders", properties={"DELAY": "1"})

        (delivered,) = await client.await_stored("orders")

        assert delivered.stored_at_ms - delivered.born_at_ms >= 1_000


@pytest.mark.row("RT-06")
async def test_a_message_that_is_sent_back_is_retried(tmp_path: Path) -> None:
    async with running_real_stage(tmp_path) as stage:
        client = stage.connect()
        sent = await client.send("orders")
        position = parse_offset_message_id((sent.ext or {})["msgId"]).position

        fields = {"offset": position, "group": "shop", "delayLevel": 1}
        await client.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)

        assert await client.await_stored("%RETRY%shop")


@pytest.mark.row("TX-04")
async def test_an_undecided_transaction_is_asked_about(tmp_path: Path) -> None:
    settings = {"transaction_check_interval": 100, "transaction_time_out": 50}
    async with running_real_stage(tmp_path, **settings) as stage:
        client = stage.connect()
        await client.heartbeat(producer="payers")
        properties = {"TRAN_MSG": "true", "PGROUP": "payers"}
        await client.send("orders", sys_flag=4, properties=properties)

        assert await aeventually(lambda: client.asked_for(RequestCode.CHECK_TRANSACTION_STATE))


@pytest.mark.row("RT-11", "RT-12")
async def test_a_message_that_was_tried_often_enough_is_a_dead_letter(tmp_path: Path) -> None:
    async with running_real_stage(tmp_path) as stage:
        client = stage.connect()
        sent = await client.send("orders", b"never")
        position = parse_offset_message_id((sent.ext or {})["msgId"]).position
        fields = {"offset": position, "group": "shop", "delayLevel": 1, "maxReconsumeTimes": 1}
        await client.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
        (retried,) = await client.await_stored("%RETRY%shop")

        await client.request(
            RequestCode.CONSUMER_SEND_MSG_BACK, fields | {"offset": retried.position, "delayLevel": 0}
        )

        (dead,) = await client.await_stored("%DLQ%shop")
        assert (dead.body, dead.reconsume_times) == (b"never", 2)


@pytest.mark.row("TX-01", "TX-03", "TX-07")
async def test_transactions_are_committed_rolled_back_and_given_up(tmp_path: Path) -> None:
    settings = {"transaction_check_interval": 50, "transaction_time_out": 20, "transaction_check_max": 2}
    async with running_real_stage(tmp_path, **settings) as stage:
        client = stage.connect()
        for body, fate in ((b"commit", 8), (b"roll back", 12), (b"never", None)):
            properties = {"TRAN_MSG": "true", "PGROUP": "payers"}
            if fate is not None:
                # However long this machine takes to end it, it is not given up before.
                properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] = "3600"
            half = await client.send("orders", body, sys_flag=4, properties=properties)
            ext = half.ext or {}
            fields = {
                "producerGroup": "payers",
                "tranStateTableOffset": ext["queueOffset"],
                "commitLogOffset": parse_offset_message_id(ext["msgId"]).position,
                "commitOrRollback": fate,
                "msgId": "ID",
            }
            if fate is not None:
                await client.request(RequestCode.END_TRANSACTION, fields)

        (given_up,) = await client.await_stored("TRANS_CHECK_MAX_TIME_TOPIC")

        assert given_up.body == b"never"
        assert [record.body for record in await client.stored("orders")] == [b"commit"]


@pytest.mark.row("TX-08")
async def test_a_transaction_with_an_immunity_of_its_own_is_asked_about_after_it(tmp_path: Path) -> None:
    settings = {"transaction_check_interval": 50, "transaction_time_out": 60_000}
    async with running_real_stage(tmp_path, **settings) as stage:
        client = stage.connect()
        await client.heartbeat(producer="payers")
        properties = {"TRAN_MSG": "true", "PGROUP": "payers", "CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}
        await client.send("orders", sys_flag=4, properties=properties)

        (check, *_) = await aeventually(lambda: client.asked_for(RequestCode.CHECK_TRANSACTION_STATE))

        asked = decode_record(check.body)
        assert stage.clock.now_ms() - asked.born_at_ms >= 1_000
        assert "TRANSACTION_CHECK_TIMES\x011" in asked.properties
