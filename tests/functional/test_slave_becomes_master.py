"""A master on a log that grew by copying only: all that waits in it comes, once.

A slave's folder has the log, up to where the copying ended, and whichever tables were copied in time: here
none, or one that was ahead of the log.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import ManualStage, Peer, running_stage, settle, text_of
from slave_stage import running_pair, successor
from staged_batches import units
from transaction_steps import answer_check, await_checks

from pyromq.broker.broker import Broker
from pyromq.broker.kinds.timers.timer_table import WaitingTable
from pyromq.broker.replication.standing import Standing
from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.offset_bodies import encode_group_offsets
from pyromq.wire.bodies.staging_bodies import PartChunks, StagedBody, encode_staged
from pyromq.wire.bodies.topic_bodies import DataVersion, TopicConfigTable, encode_topic_table
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id
from pyromq.wire.record import Record

COMMIT = 8
DAY_MS = 24 * 3_600_000


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[ManualStage]:
    async with running_stage(tmp_path / "master") as stage:
        yield stage


async def bodies(client: Peer, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    return [record.body for record in await client.stored(topic, queue_id)]


# Topics and progress


@pytest.mark.row("HA-09")
async def test_messages_of_a_topic_that_no_table_knows_are_read(stage: ManualStage, tmp_path: Path) -> None:
    await stage.connect().send("orders", b"kept", queue_id=2)

    async with successor(stage, tmp_path / "slave") as master:
        client = master.connect()

        assert await bodies(client, queue_id=2) == [b"kept"]
        assert (await client.send("orders", queue_id=2)).code == ResponseCode.SUCCESS
        path = master.folder / "config" / "topics.json"
        await aeventually(lambda: '"orders"' in text_of(path))
        assert "rmq_sys_" not in text_of(path)


async def test_a_topic_that_no_table_knows_has_the_queues_that_its_first_send_created(
    stage: ManualStage, tmp_path: Path
) -> None:
    """A broker that was killed right then refused later sends to the queues that had no message yet."""
    await stage.connect().send("orders", b"kept", queue_id=0)

    async with successor(stage, tmp_path / "slave") as master:
        answers = [await master.connect().send("orders", queue_id=queue_id) for queue_id in range(5)]

    codes = [answer.code for answer in answers]
    assert codes == [*[ResponseCode.SUCCESS] * 4, ResponseCode.SYSTEM_ERROR]


async def test_a_topic_that_was_deleted_stays_so(stage: ManualStage, tmp_path: Path) -> None:
    await stage.connect().send("gone")
    stage.clock.advance(1_000)
    table = TopicConfigTable(data_version=DataVersion(counter=9, timestamp=stage.clock.now_ms()))

    async with successor(stage, tmp_path / "slave", topics=encode_topic_table(table)) as master:
        answer = await master.connect().request(RequestCode.GET_ALL_TOPIC_CONFIG)

    assert '"gone"' not in answer.body.decode()


async def test_a_group_that_was_ahead_of_the_copied_log_reads_what_comes_next(
    stage: ManualStage, tmp_path: Path
) -> None:
    await stage.connect().send("orders", b"first")
    ahead = encode_group_offsets({"orders@readers": {0: 9}}, pretty=True)

    async with successor(stage, tmp_path / "slave", consumerOffset=ahead) as master:
        answer = await master.connect().request(
            RequestCode.QUERY_CONSUMER_OFFSET,
            {"consumerGroup": "readers", "topic": "orders", "queueId": 0},
        )

    assert (answer.ext or {})["offset"] == "1"


# Messages that wait


@pytest.mark.parametrize("properties", [{"DELAY": "3"}, {"TIMER_DELAY_MS": "10000"}], ids=["level", "timer"])
async def test_what_waits_is_delivered_in_its_time(
    stage: ManualStage, tmp_path: Path, properties: dict[str, str]
) -> None:
    await stage.connect().send("orders", b"later", properties=properties)

    async with successor(stage, tmp_path / "slave") as master:
        client = master.connect()
        await settle()
        before = await bodies(client)
        master.clock.advance(11_000)
        after = [record.body for record in await client.await_stored("orders")]

    assert (before, after) == ([], [b"later"])


@pytest.mark.row("DE-10")
@pytest.mark.parametrize("is_before", [True, False], ids=["recalled before", "recalled after"])
async def test_no_copy_of_a_message_that_was_sent_again_comes_once_it_is_recalled(
    stage: ManualStage, tmp_path: Path, *, is_before: bool
) -> None:
    client = stage.connect()
    await client.send("orders", b"other", properties={"TIMER_DELAY_MS": "10000"})
    again = {"TIMER_DELAY_MS": "10000", "UNIQ_KEY": "AGAIN"}
    handle = [(await client.send("orders", properties=again)).ext or {} for _ in range(3)][-1]["recallHandle"]

    async def recall(client: Peer) -> None:
        fields = {"producerGroup": "producers", "topic": "orders", "recallHandle": handle}
        answer = await client.request(RequestCode.RECALL_MESSAGE, fields)
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    if is_before:
        await recall(client)
    topics = stage.broker.topics.encode()
    async with successor(stage, tmp_path / "slave", topics=topics) as master:
        if not is_before:
            await recall(master.connect())
        master.clock.advance(DAY_MS)
        client = master.connect()
        await client.await_stored("orders")
        await _is_ready(master)

        assert await bodies(client) == [b"other"]


@pytest.mark.parametrize("properties", [{"DELAY": "1"}, {"TIMER_DELAY_MS": "1000"}], ids=["level", "timer"])
async def test_what_was_delivered_comes_no_second_time(
    stage: ManualStage, tmp_path: Path, properties: dict[str, str]
) -> None:
    client = stage.connect()
    for number in range(3):
        await client.send("orders", b"%d" % number, properties=properties)
    stage.clock.advance(1_100)
    await client.await_stored("orders", 3)

    async with successor(stage, tmp_path / "slave") as master:
        await _is_ready(master)
        master.clock.advance(DAY_MS)
        await _is_ready(master)

        assert await bodies(master.connect()) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("properties", [{"DELAY": "1"}, {"TIMER_DELAY_MS": "1000"}], ids=["level", "timer"])
async def test_what_was_delivered_but_not_copied_is_delivered_again(
    stage: ManualStage, tmp_path: Path, properties: dict[str, str]
) -> None:
    client = stage.connect()
    await client.send("orders", b"later", properties=properties)
    end = stage.broker.max_position
    stage.clock.advance(1_100)
    await client.await_stored("orders")

    async with successor(stage, tmp_path / "slave", end=end) as master:
        assert [record.body for record in await master.connect().await_stored("orders")] == [b"later"]


async def _is_ready(stage: ManualStage) -> None:
    """Return when a master has looked at all that waits."""
    answer = await stage.connect().request(RequestCode.LIST_WAITING, {"maxNum": 0, "withCount": "true"})
    assert (answer.ext or {})["waitingCount"] == "0"
    await settle()


async def test_a_slave_writes_down_what_waits_so_that_the_next_master_need_not_look_for_it(
    tmp_path: Path,
) -> None:
    async with running_pair(tmp_path) as pair:
        client = pair.master.connect()
        for delay_ms in (1, 3_600_000, 7_200_000):
            await client.send("orders", b"%d" % delay_ms, properties={"TIMER_DELAY_MS": str(delay_ms)})
        await client.await_stored("orders")
        await pair.caught_up()
        for _ in range(2):
            await pair.slave.broker.kinds.timers.follow(_AlwaysSynced())  # type: ignore[arg-type]
        await pair.stop(pair.slave)

        table = WaitingTable(pair.slave.folder / "timers" / "waiting.db")
        progress = table.open()
        rows = table.next_due((0, 0), 1 << 60, count=9)
        table.close()

        assert progress is not None
        assert progress.position == pair.master.broker.max_position
        assert len(rows) == 2


class _AlwaysSynced:
    async def sync_now(self) -> None:
        """Nothing: what a test does not lose is safe."""


# Transactions


async def send_half(client: Peer) -> Command:
    return await client.send(
        "orders",
        b"pay",
        group="payers",
        sys_flag=4,
        properties={"TRAN_MSG": "true", "PGROUP": "payers", "WAIT": "true"},
    )


async def commit(client: Peer, half: Command) -> Command:
    ext = half.ext or {}
    fields = {
        "producerGroup": "payers",
        "tranStateTableOffset": ext["queueOffset"],
        "commitLogOffset": parse_offset_message_id(ext["msgId"]).position,
        "commitOrRollback": COMMIT,
        "fromTransactionCheck": False,
        "msgId": "ID",
    }
    return await client.request(RequestCode.END_TRANSACTION, fields)


async def test_a_half_is_committed_at_the_next_master(stage: ManualStage, tmp_path: Path) -> None:
    half = await send_half(stage.connect())

    async with successor(stage, tmp_path / "slave") as master:
        client = master.connect()

        assert (await commit(client, half)).code == ResponseCode.SUCCESS
        assert await bodies(client) == [b"pay"]


async def test_the_next_master_asks_about_what_is_undecided(stage: ManualStage, tmp_path: Path) -> None:
    await send_half(stage.connect())

    async with successor(stage, tmp_path / "slave") as master:
        client = master.connect()
        await client.heartbeat(producer="payers")
        master.clock.advance(70_000)

        await aeventually(lambda: client.asked_for(RequestCode.CHECK_TRANSACTION_STATE))


async def test_the_last_answer_counts_at_the_next_master(stage: ManualStage, tmp_path: Path) -> None:
    """The half was stored for its last question, and the master that asked is gone."""
    client = stage.connect()
    await send_half(client)
    await client.heartbeat(producer="payers")
    for at in range(1, 16):
        stage.clock.advance(60_000)
        checks = await await_checks(client, at)

    async with successor(stage, tmp_path / "slave") as master:
        client = master.connect()

        assert (await answer_check(client, checks[-1], COMMIT)).code == ResponseCode.SUCCESS
        assert await bodies(client) == [b"pay"]


@pytest.mark.parametrize("copied", ["both", "the message", "neither"])
async def test_a_commit_counts_once_wherever_the_copying_ended(
    stage: ManualStage, tmp_path: Path, copied: str
) -> None:
    client = stage.connect()
    half = await send_half(client)
    decided_at = stage.broker.max_position
    await commit(client, half)
    (message,) = await client.await_stored("orders")
    ends = {"both": stage.broker.max_position, "the message": message.position + message.size}

    async with successor(stage, tmp_path / "slave", end=ends.get(copied, decided_at)) as master:
        client = master.connect()
        again = await commit(client, half)

        is_new = copied == "neither"
        assert (again.code == ResponseCode.SUCCESS) is is_new
        assert await bodies(client) == [b"pay"]


# Staged batches


async def staged(client: Peer, batch: int, ids: list[str]) -> None:
    fields = {"query": "q", "batch": batch, "home": "broker-a"}
    layout = encode_staged(StagedBody(layout={"orders": {"broker-a": 1}}))
    assert (await client.request(RequestCode.OPEN_STAGED_BATCH, fields, body=layout)).code == 0
    chunk = fields | {"part": 0, "attempt": "a", "sequence": 0, "topic": "orders", "queueId": 0}
    chunk["bornTimestamp"] = 1
    answer = await client.request(RequestCode.STAGE_MESSAGES, chunk, body=units(ids))
    assert answer.code == ResponseCode.SUCCESS, answer.remark


async def publish(client: Peer, batch: int) -> Command:
    parts = StagedBody(parts=[PartChunks(part=0, attempt="a", chunks={"broker-a": 1})])
    fields = {"query": "q", "batch": batch, "home": "broker-a"}
    return await client.request(RequestCode.PUBLISH_STAGED, fields, body=encode_staged(parts))


@pytest.mark.parametrize("copied", [0, 1, 3, 5], ids=lambda count: f"{count} of 5 messages")
async def test_a_batch_is_published_whole_wherever_the_copying_ended(
    stage: ManualStage, tmp_path: Path, copied: int
) -> None:
    client, ids = stage.connect(), [f"id-{number}" for number in range(5)]
    await client.send("orders", b"first")
    await staged(client, 0, ids)
    await publish(client, 0)
    out = (await client.await_stored("orders", 6))[1:]
    end = out[0].position if not copied else _end(out[copied - 1])

    async with successor(stage, tmp_path / "slave", end=end) as master:
        client = master.connect()
        await publish(client, 0)

        seen = [body.decode() for body in await bodies(client)]
    assert seen == ["first", *ids]


def _end(record: Record) -> int:
    return record.position + record.size


# A log that was cut


async def test_after_a_cut_nothing_is_believed_that_went_with_it(stage: ManualStage, tmp_path: Path) -> None:
    client = stage.connect()
    half = await send_half(client)
    await client.send("orders", b"level", properties={"DELAY": "1"})
    await client.send("orders", b"timer", properties={"TIMER_DELAY_MS": "1000"})
    cut_at = stage.broker.max_position
    stage.clock.advance(1_100)
    await commit(client, half)
    await client.await_stored("orders", 3)
    stage.clock.advance(DAY_MS)
    await settle()
    await stage.close()

    stage.broker = Broker(stage._process, clock=stage.clock, standing=Standing(cut_at=cut_at))
    await stage.start()
    client = stage.connect()
    await commit(client, half)

    assert sorted(record.body for record in await client.await_stored("orders", 3)) == [
        b"level",
        b"pay",
        b"timer",
    ]
