"""Transactions that were given up, and that an operator has taken up again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import ManualStage, running_stage

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.record import decode_record

CHECK = RequestCode.CHECK_TRANSACTION_STATE
RESUME = RequestCode.RESUME_CHECK_HALF_MESSAGE
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
INTERVAL_MS = 60_000
COMMIT = 8


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[ManualStage]:
    async with running_stage(tmp_path, transaction_check_max=2) as stage:
        yield stage


async def test_a_transaction_that_was_given_up_is_asked_about_again_and_ends(stage: ManualStage) -> None:
    client = stage.connect()
    await client.heartbeat(producer="payers")
    properties = {"TRAN_MSG": "true", "PGROUP": "payers", "UNIQ_KEY": "U1"}
    await client.send("orders", b"pay", group="payers", sys_flag=4, properties=properties)

    async def asked(count: int) -> Command:
        stage.clock.advance(INTERVAL_MS)
        await aeventually(lambda: len(client.asked_for(CHECK)) == count)
        return client.asked_for(CHECK)[-1]

    await asked(1)
    await asked(2)
    # The last question has its interval too.
    stage.clock.advance(INTERVAL_MS)
    (given_up,) = await client.await_stored(GIVEN_UP)

    answer = await client.request(
        RESUME, {"msgId": offset_message_id(given_up.store_host, given_up.position)}
    )

    assert answer.code == ResponseCode.SUCCESS, answer.remark
    check = await asked(3)
    assert decode_record(check.body).body == b"pay"
    ext = check.ext or {}
    ended = await client.request(
        RequestCode.END_TRANSACTION,
        {
            "producerGroup": "payers",
            "tranStateTableOffset": ext["tranStateTableOffset"],
            "commitLogOffset": ext["commitLogOffset"],
            "commitOrRollback": COMMIT,
            "fromTransactionCheck": True,
            "msgId": "U1",
        },
    )
    assert ended.code == ResponseCode.SUCCESS, ended.remark
    (message,) = await client.await_stored("orders")
    assert message.body == b"pay"


@pytest.mark.parametrize("kind", ["no id", "no message", "no transaction"])
async def test_what_cannot_be_taken_up_again_is_refused_with_the_reason(
    stage: ManualStage, kind: str
) -> None:
    client = stage.connect()
    sent = await client.send("orders", b"plain")
    plain_id = (sent.ext or {})["msgId"]
    message_id = {"no id": "nonsense", "no message": plain_id[:-1] + "9", "no transaction": plain_id}[kind]

    answer = await client.request(RESUME, {"msgId": message_id})

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed" in (answer.remark or "")
    assert message_id in (answer.remark or "")
