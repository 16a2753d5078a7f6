"""The shortest waits once more, with the machine's own clock."""

from pathlib import Path

import pytest
from kinds_stage import running_real_stage

from pyromq.codes import RequestCode
from pyromq.testing.waiting import aeventually
from pyromq.wire.message_id import parse_offset_message_id


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
