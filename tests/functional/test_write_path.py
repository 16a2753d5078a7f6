"""The way of a message into the store: its offset, one record in the log, then queue and index.

RocketMQ's queues and index follow the log in a thread of their own, a moment later (reput). Here they follow
it before the sender is answered; what they are made from is the log as well.
"""

import shutil
from pathlib import Path

import pytest
from kinds_stage import ManualStage, running_stage

from pyromq.codes import RequestCode, ResponseCode
from pyromq.wire.bodies.registration_bodies import decode_key_values
from pyromq.wire.java_hash import java_hash
from pyromq.wire.message_id import parse_offset_message_id
from pyromq.wire.record import Record, decode_record, iter_records

pytestmark = pytest.mark.row("ST-13")
COUNT = 12


async def send_some(stage: ManualStage) -> list[Record]:
    """Send messages to two queues in turn; return the records of the log where the answers say they are."""
    client, records = stage.connect(), []
    for number in range(COUNT):
        sent = await client.send(
            "orders", b"%d" % number, queue_id=number % 2, properties={"KEYS": f"k{number}", "TAGS": "t"}
        )
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        ext = sent.ext or {}
        position = parse_offset_message_id(ext["msgId"]).position
        (log,) = (stage.folder / "commitlog").iterdir()
        record = decode_record(log.read_bytes(), position)
        assert (record.position, record.queue_id) == (position, int(ext["queueId"]))
        assert record.queue_offset == int(ext["queueOffset"]) == number // 2
        records.append(record)
    return records


async def check_followers(stage: ManualStage, records: list[Record]) -> None:
    """Look whether queues and index have exactly these messages."""
    client, store = stage.connect(), stage.broker.store
    for queue_id in range(2):
        of_queue = [record for record in records if record.queue_id == queue_id]
        entries = store.entries("orders", queue_id, 0, COUNT)
        assert [tuple(entry) for entry in entries] == [
            (record.position, record.size, java_hash("t")) for record in of_queue
        ]
        assert [one.body for one in await client.stored("orders", queue_id)] == [one.body for one in of_queue]
    for number, record in enumerate(records):
        fields = {"topic": "orders", "key": f"k{number}", "maxNum": 8, "beginTimestamp": 0}
        found = await client.request(RequestCode.QUERY_MESSAGE, fields | {"endTimestamp": 1 << 60})
        assert [one.position for one in iter_records(found.body)] == [record.position]


async def test_a_message_is_in_queue_and_index_when_its_sender_is_answered(tmp_path: Path) -> None:
    async with running_stage(tmp_path) as stage:
        records = await send_some(stage)

        await check_followers(stage, records)
        ends = [record.position + record.size for record in records]
        assert [record.position for record in records] == [0, *ends[:-1]]
        runtime = await stage.connect().request(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert decode_key_values(runtime.body).table["dispatchBehindBytes"] == "0"


async def test_queues_and_index_are_made_from_the_log_when_they_are_lost(tmp_path: Path) -> None:
    async with running_stage(tmp_path) as stage:
        records = await send_some(stage)
        await stage.close()
        for folder in ("consumequeue", "index"):
            shutil.rmtree(tmp_path / folder)
        (tmp_path / "checkpoint").unlink()
        (tmp_path / "abort").touch()
    async with running_stage(tmp_path) as stage:
        await check_followers(stage, records)
