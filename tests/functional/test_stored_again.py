"""Ends of transactions, deliveries of delayed messages and send-backs on the kernel's way, with defaults."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kinds_stage import ManualStage, Peer, after_a_crash, properties_of, running_stage
from transaction_steps import COMMIT, GROUP, HALF, INTERVAL_MS, ROLLBACK, UNKNOWN, end, end_fields, send_half

from pyromq.broker.kinds.delay import TURN_MESSAGES_MAX
from pyromq.codes import RequestCode, ResponseCode, Serializer
from pyromq.config.choices import FlushDiskType
from pyromq.kernel import IS_COMPILED
from pyromq.net.routes import Request
from pyromq.store.store import Draft, MessageStore, Placed
from pyromq.testing.requests import held_pull_fields, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.wire import properties as names
from pyromq.wire.batch import BatchUnit, encode_batch
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.command import Command, encode
from pyromq.wire.message_id import offset_message_id, parse_offset_message_id
from pyromq.wire.record import Record

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="without the kernel there is no shortcut")
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"


@dataclass
class Seen:
    """A stage, a client, and what Python handles of its requests."""

    stage: ManualStage
    client: Peer
    ends: list[int] = field(default_factory=list)

    def watch(self) -> None:
        """Note the ends that Python handles from now on."""

        def note(request: Request[object]) -> None:
            self.ends.append(request.command.code)

        self.stage.broker._table.guard(note, [RequestCode.END_TRANSACTION])

    def decided(self) -> list[int]:
        """Return the halves that the op messages name."""
        store = self.stage.broker.store
        records = [store.record_at(entry.position) for entry in store.entries(OP, 0, 0, 100)]
        return [int(record.body) for record in records if record is not None]

    async def teach(self) -> None:
        """Let the kernel learn where committed messages go: the first makes the topic, and it is saved."""
        for _ in range(3):
            half = await send_half(self.client, b"first")
            assert (await end(self.client, half, COMMIT)).code == ResponseCode.SUCCESS
        self.ends.clear()


@pytest.fixture(params=list(FlushDiskType))
async def seen(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Seen]:
    async with running_stage(tmp_path, flush_disk_type=request.param) as stage:
        made = Seen(stage, stage.connect())
        made.watch()
        await made.teach()
        yield made


# Ends of transactions ---------------------------------------------------------------------------------------


@pytest.mark.row("TX-04", "TX-05")
async def test_python_does_not_see_the_ends_that_the_kernel_takes(seen: Seen) -> None:
    halves = [await send_half(seen.client, b"%d" % number) for number in range(4)]

    answers = [
        await end(seen.client, half, fate)
        for half, fate in zip(halves, (COMMIT, ROLLBACK, COMMIT, ROLLBACK), strict=True)
    ]

    assert [(answer.code, answer.remark, answer.ext or None) for answer in answers] == [(0, None, None)] * 4
    assert seen.ends == []
    stored = await seen.client.await_stored("orders", 5, queue_id=2)
    assert [record.body for record in stored[3:]] == [b"0", b"2"]
    assert seen.decided() == list(range(7))


async def test_a_oneway_end_is_taken_and_not_answered(seen: Seen) -> None:
    half = await send_half(seen.client)

    await seen.client.oneway(RequestCode.END_TRANSACTION, end_fields(half, COMMIT))

    assert len(await seen.client.await_stored("orders", 4, queue_id=2)) == 4
    assert seen.ends == []


async def test_a_committed_message_is_what_python_would_store(seen: Seen) -> None:
    half = await send_half(seen.client, b"pay", own="value")

    await end(seen.client, half, COMMIT)

    *_, by_python, by_kernel = await seen.client.await_stored("orders", 4, queue_id=2)
    assert by_kernel.body == b"pay"
    assert by_kernel.sys_flag == by_python.sys_flag == COMMIT
    assert by_kernel.prepared_position == int(str(end_fields(half, COMMIT)["commitLogOffset"]))
    assert by_kernel.properties.replace("own\x01value\x02", "").replace(
        f"{seen.stage._ids:032X}", f"{seen.stage._ids - 1:032X}"
    ) == (by_python.properties)


async def test_a_second_end_is_pythons_to_refuse(seen: Seen) -> None:
    half = await send_half(seen.client)
    await end(seen.client, half, COMMIT)

    second = await end(seen.client, half, ROLLBACK)

    assert second.code == ResponseCode.SYSTEM_ERROR
    assert "already" in (second.remark or "")
    assert len(seen.ends) == 1
    assert seen.decided() == [0, 1, 2, 3]


@pytest.mark.parametrize("serializer", Serializer)
async def test_a_half_and_two_ends_of_it_in_one_buffer(seen: Seen, serializer: Serializer) -> None:
    store = seen.stage.broker.store
    fields = send_v2_fields("orders", {"TRAN_MSG": "true", "PGROUP": GROUP}, queueId=2)
    ending = {
        "producerGroup": GROUP,
        "tranStateTableOffset": store.max_offset(HALF, 0),
        "commitLogOffset": store.max_position,
        "commitOrRollback": COMMIT,
        "msgId": "ID",
    }
    frames = [
        _frame(RequestCode.SEND_MESSAGE_V2, fields, serializer, opaque=1),
        _frame(RequestCode.END_TRANSACTION, ending, serializer, opaque=2),
        _frame(RequestCode.END_TRANSACTION, ending, serializer, opaque=3),
    ]
    reader, writer = await asyncio.open_connection("127.0.0.1", seen.stage.broker.port)

    writer.write(b"".join(frames))

    await aeventually(lambda: store.max_offset(OP, 0) == 4)
    assert len(await seen.client.await_stored("orders", 4, queue_id=2)) == 4
    await aeventually(lambda: len(seen.ends) == 1)
    writer.close()
    del reader


async def test_a_producer_that_does_not_know_yet_is_not_answered(seen: Seen) -> None:
    half = await send_half(seen.client)

    await seen.client.oneway(RequestCode.END_TRANSACTION, end_fields(half, UNKNOWN))
    assert (await end(seen.client, half, COMMIT)).code == ResponseCode.SUCCESS

    assert len(seen.ends) == 1
    assert len(await seen.client.await_stored("orders", 4, queue_id=2)) == 4


async def test_ends_of_halves_that_were_stored_again_decide_the_newest_copy(seen: Seen) -> None:
    half = await send_half(seen.client, b"asked about")
    other = await send_half(seen.client, b"not asked about yet")
    check = seen.stage.broker.kinds.halves.check
    assert check is not None
    seen.stage.clock.advance(INTERVAL_MS)
    await check()

    assert (await end(seen.client, half, COMMIT)).code == ResponseCode.SUCCESS
    assert (await end(seen.client, other, COMMIT)).code == ResponseCode.SUCCESS
    await aeventually(lambda: len(seen.ends) == 2)
    fresh = await send_half(seen.client, b"fresh")
    assert (await end(seen.client, fresh, COMMIT)).code == ResponseCode.SUCCESS

    assert len(seen.ends) == 2
    halves = seen.stage.broker.kinds.halves
    assert all(
        halves.is_decided(offset) for offset in range(seen.stage.stored_end(HALF)) if offset not in (3, 4)
    )


async def test_what_the_kernel_decided_is_decided_after_a_crash(seen: Seen, tmp_path: Path) -> None:
    decided = await send_half(seen.client, b"decided")
    waits = await send_half(seen.client, b"waits")
    assert (await end(seen.client, decided, COMMIT)).code == ResponseCode.SUCCESS

    async with after_a_crash(seen.stage, tmp_path.with_name(f"{tmp_path.name}-survivor")) as survivor:
        client = survivor.connect()
        assert (await end(client, decided, COMMIT)).code == ResponseCode.SYSTEM_ERROR
        assert (await end(client, waits, COMMIT)).code == ResponseCode.SUCCESS
        assert len(await client.await_stored("orders", 5, queue_id=2)) == 5


async def test_after_a_change_of_the_topic_python_has_the_next_end(seen: Seen) -> None:
    half = await send_half(seen.client)
    topics = seen.stage.broker.topics
    config = topics.get("orders")
    assert config is not None
    topics.put(config)

    assert (await end(seen.client, half, COMMIT)).code == ResponseCode.SUCCESS

    assert len(seen.ends) == 1


async def test_the_key_of_a_committed_message_is_found(seen: Seen) -> None:
    half = await send_half(seen.client, b"pay", KEYS="the-key")
    await end(seen.client, half, COMMIT)

    found = seen.stage.broker.store.query("orders", "the-key", count_max=5, begin_ms=0, end_ms=1 << 62)

    assert len(found.records) == 1


async def test_a_pull_that_waits_gets_what_the_kernel_commits(seen: Seen) -> None:
    half = await send_half(seen.client, b"pay")
    reader = seen.stage.connect("reader")
    pulling = await seen.stage.hold(reader.pull("orders", 2, offset=3, hold_ms=15_000))

    await end(seen.client, half, COMMIT)

    assert b"pay" in (await pulling).body


# Delay levels -----------------------------------------------------------------------------------------------


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[ManualStage]:
    async with running_stage(tmp_path) as stage:
        yield stage


@pytest.fixture
def put_one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics of the messages that are stored one by one."""
    topics: list[str] = []
    put = MessageStore.put

    def noted(store: MessageStore, draft: Draft) -> Placed:
        topics.append(draft.topic)
        return put(store, draft)

    monkeypatch.setattr(MessageStore, "put", noted)
    return topics


async def _send_delayed(client: Peer, count: int, **properties: str) -> None:
    for number in range(count):
        await client.send("orders", b"%d" % number, properties={"DELAY": "1", **properties})


@pytest.mark.row("DE-08", "DE-09")
async def test_messages_that_are_due_are_stored_together(
    stage: ManualStage, put_one_by_one: list[str]
) -> None:
    client = stage.connect()
    await _send_delayed(client, 1)
    stage.clock.advance(1_000)
    await client.await_stored("orders", 1)
    count = 3 * TURN_MESSAGES_MAX
    await _send_delayed(client, count, KEYS="the-key")
    put_one_by_one.clear()

    stage.clock.advance(1_000)

    await aeventually(lambda: stage.stored_end("orders") == 1 + count)
    assert put_one_by_one == []
    assert [int(record.body) for record in await client.stored("orders", offset=1)] == list(range(32))
    assert stage.broker.kinds.delayed.progress == {1: 1 + count}
    found = stage.broker.store.query("orders", "the-key", count_max=64, begin_ms=0, end_ms=1 << 62)
    assert len(found.records) == 64


async def test_several_levels_are_due_together(stage: ManualStage) -> None:
    client = stage.connect()
    for level in (1, 2, 3):
        for number in range(40):
            await client.send("orders", b"%d %d" % (level, number), properties={"DELAY": str(level)})

    stage.clock.advance(10_000)

    await aeventually(lambda: stage.stored_end("orders") == 120)
    for level in (1, 2, 3):
        assert stage.broker.kinds.delayed.progress[level] == 40


async def test_a_message_that_is_not_plain_is_delivered_in_its_place(stage: ManualStage) -> None:
    client = stage.connect()
    await _send_delayed(client, 1)
    stage.clock.advance(1_000)
    await client.await_stored("orders", 1)
    for body, more in ((b"a", {}), (b"b", {"own": "nül"}), (b"c", {}), (b"d", {"own": "nül"})):
        await client.send("orders", body, properties={"DELAY": "1", **more})

    stage.clock.advance(1_000)

    stored = await client.await_stored("orders", 5)
    assert [record.body for record in stored[1:]] == [b"a", b"b", b"c", b"d"]


async def test_a_pull_that_waits_gets_what_is_delivered_together(stage: ManualStage) -> None:
    client = stage.connect()
    await _send_delayed(client, 1)
    stage.clock.advance(1_000)
    await client.await_stored("orders", 1)
    await _send_delayed(client, 3)
    reader = stage.connect("reader")
    pulling = await stage.hold(
        reader.request(RequestCode.PULL_MESSAGE, held_pull_fields("orders", queueOffset=1))
    )

    stage.clock.advance(1_000)

    answer = await pulling
    assert answer.code == ResponseCode.SUCCESS
    assert (answer.ext or {})["nextBeginOffset"] == "4"


async def test_what_was_delivered_together_does_not_come_again_after_a_crash(
    stage: ManualStage, tmp_path: Path
) -> None:
    client = stage.connect()
    await _send_delayed(client, 1)
    stage.clock.advance(1_000)
    await client.await_stored("orders", 1)
    await _send_delayed(client, 10)
    stage.clock.advance(1_000)
    await client.await_stored("orders", 11)
    await _send_delayed(client, 5)

    async with after_a_crash(stage, tmp_path.with_name(f"{tmp_path.name}-survivor")) as survivor:
        survivor.clock.advance(1_000)
        await aeventually(lambda: survivor.stored_end("orders") >= 16)
        assert survivor.stored_end("orders") == 16


async def test_messages_of_a_topic_that_was_deleted_meanwhile_make_it_again(stage: ManualStage) -> None:
    client = stage.connect()
    await _send_delayed(client, 1)
    stage.clock.advance(1_000)
    await client.await_stored("orders", 1)
    await _send_delayed(client, 3)
    answer = await client.request(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    assert answer.code == ResponseCode.SUCCESS

    stage.clock.advance(1_000)

    assert len(await client.await_stored("orders", 3)) == 3


# Timed messages ---------------------------------------------------------------------------------------------


@pytest.fixture
def put_together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages Python stores with each write of several."""
    counts: list[int] = []
    put = MessageStore.put_batch

    def noted(store: MessageStore, drafts: Iterable[Draft], *, is_for_room: bool = False) -> list[Placed]:
        placed = put(store, drafts, is_for_room=is_for_room)
        counts.append(len(placed))
        return placed

    monkeypatch.setattr(MessageStore, "put_batch", noted)
    return counts


@pytest.mark.row("MM-09")
async def test_timed_messages_that_are_due_are_stored_as_python_stores_them(
    stage: ManualStage, put_together: list[int]
) -> None:
    client = stage.connect()

    async def deliver(first: int, count: int) -> list[Record]:
        for number in range(count):
            properties = {"TIMER_DELAY_MS": "1000", "KEYS": "the-key"}
            await client.send("orders", b"%d" % (first + number), properties=properties)
        stage.clock.advance(1_000)
        await aeventually(lambda: stage.stored_end("orders") == first + count)
        return await client.stored("orders", offset=first)

    by_python = await deliver(0, 1)
    assert sum(put_together) == 1
    by_kernel = await deliver(1, 20)

    assert sum(put_together) == 1
    assert [int(record.body) for record in by_kernel] == list(range(1, 21))
    for record in (*by_python, *by_kernel):
        properties = properties_of(record)
        waiting = stage.broker.store.record_at(record.prepared_position - 1)
        assert waiting is not None
        assert (waiting.topic, waiting.body) == ("rmq_sys_wheel_timer", record.body)
        assert properties["TIMER_ENQUEUE_MS"] == str(waiting.stored_at_ms)
        assert properties["TIMER_DEQUEUE_MS"] == str(record.stored_at_ms)
        assert record.properties.startswith(waiting.properties)
    assert await stage.broker.kinds.timers.count() == 0


async def test_timed_messages_that_came_do_not_come_again_after_a_crash(
    stage: ManualStage, tmp_path: Path
) -> None:
    client = stage.connect()
    for count in (1, 10):
        for _ in range(count):
            await client.send("orders", b"soon", properties={"TIMER_DELAY_MS": "1000"})
        stage.clock.advance(1_000)
        await aeventually(lambda: stage.stored_end("orders") in (1, 11))
    await client.send("orders", b"later", properties={"TIMER_DELAY_MS": "1000"})
    await client.await_stored("orders", 11)

    async with after_a_crash(stage, tmp_path.with_name(f"{tmp_path.name}-survivor")) as survivor:
        survivor.clock.advance(1_000)
        stored = await survivor.connect().await_stored("orders", 12)
        assert [record.body for record in stored] == [b"soon"] * 11 + [b"later"]


# Send-backs -------------------------------------------------------------------------------------------------


@dataclass
class Reader:
    """A stage, a client that reads and sends back, and what Python handles of its requests."""

    stage: ManualStage
    client: Peer
    handled: list[int] = field(default_factory=list)

    async def message(self, body: bytes = b"hello", **properties: str) -> int:
        """Have a message stored, and return its position."""
        sent = await self.client.send("orders", body, properties=properties)
        return parse_offset_message_id((sent.ext or {})["msgId"]).position

    async def send_back(self, position: int, **more: object) -> Command:
        fields = {"offset": position, "group": "shop", "delayLevel": 0} | more
        return await self.client.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)


@pytest.fixture(params=list(FlushDiskType))
async def reader(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Reader]:
    async with running_stage(tmp_path, flush_disk_type=request.param) as stage:
        made = Reader(stage, stage.connect())
        await made.client.heartbeat(consumer="shop")
        for _ in range(2):
            assert (await made.send_back(await made.message(b"first"))).code == ResponseCode.SUCCESS

        def note(request: Request[object]) -> None:
            made.handled.append(request.command.code)

        stage.broker._table.guard(note, [RequestCode.CONSUMER_SEND_MSG_BACK])
        yield made


@pytest.mark.row("RT-01", "RT-06")
async def test_a_message_that_is_sent_back_waits_and_comes_again(reader: Reader) -> None:
    position = await reader.message(b"again", TAGS="paid", KEYS="the-key", own="value")

    answer = await reader.send_back(position)

    assert (answer.code, answer.remark, answer.ext or None) == (ResponseCode.SUCCESS, None, None)
    assert reader.handled == []
    *_, waiting = await reader.client.await_stored("SCHEDULE_TOPIC_XXXX", 3, queue_id=2)
    reader.stage.clock.advance(10_000)
    *_, retried = await reader.client.await_stored("%RETRY%shop", 3)
    assert (retried.body, retried.reconsume_times) == (b"again", 1)
    properties = properties_of(retried)
    expected = {"RETRY_TOPIC": "orders", "REAL_TOPIC": "%RETRY%shop", "REAL_QID": "0", "DELAY": "3"}
    assert {name: properties[name] for name in expected} == expected
    assert properties["WAIT"] == "false"
    assert properties["ORIGIN_MESSAGE_ID"] == offset_message_id(retried.store_host, position)
    assert names.encode(names.decode(waiting.properties)) == waiting.properties


async def test_a_message_of_a_batch_is_sent_back_without_python(reader: Reader) -> None:
    # As Java's: WAIT is among the properties of each message, and among those of the batch.
    unit = BatchUnit(flag=0, body=b"again", properties="UNIQ_KEY\x010A\x02WAIT\x01true\x02own\x01value")
    fields = send_v2_fields("orders", {"WAIT": "true"}, batch=True)
    sent = await reader.client.request(RequestCode.SEND_BATCH_MESSAGE, fields, body=encode_batch([unit]))
    position = parse_offset_message_id((sent.ext or {})["msgId"]).position

    assert (await reader.send_back(position)).code == ResponseCode.SUCCESS

    assert reader.handled == []
    *_, waiting = await reader.client.await_stored("SCHEDULE_TOPIC_XXXX", 3, queue_id=2)
    properties = names.decode(waiting.properties)
    assert (properties["WAIT"], properties["own"]) == ("false", "value")
    assert names.encode(properties) == waiting.properties


async def test_each_try_waits_longer_and_keeps_the_first_ones_topic_and_id(reader: Reader) -> None:
    position = await reader.message(b"again", **{f"own{number}": "value" for number in range(20)})
    await reader.send_back(position)
    reader.stage.clock.advance(10_000)
    *_, first = await reader.client.await_stored("%RETRY%shop", 3)

    assert (await reader.send_back(first.position)).code == ResponseCode.SUCCESS
    reader.stage.clock.advance(30_000)

    *_, second = await reader.client.await_stored("%RETRY%shop", 4)
    assert reader.handled == [RequestCode.CONSUMER_SEND_MSG_BACK], "the level's queue had no message before"
    assert second.reconsume_times == 2
    assert properties_of(second) == properties_of(first) | {"DELAY": "4"}


@pytest.mark.parametrize(
    "given",
    [{"delayLevel": -1}, {"maxReconsumeTimes": 0}, {"group": "unknown"}, {"offset": 13}],
    ids=lambda given: next(iter(given)),
)
async def test_dead_letters_and_refusals_are_pythons(reader: Reader, given: dict[str, object]) -> None:
    position = await reader.message()

    await reader.send_back(position, **given)

    assert len(reader.handled) == 1
    assert reader.stage.stored_end("SCHEDULE_TOPIC_XXXX", 2) == (3 if "group" in given else 2)


async def test_after_a_change_of_the_group_python_has_the_next_send_back(reader: Reader) -> None:
    position = await reader.message()
    groups = reader.stage.broker.groups.table
    groups.put(SubscriptionGroupConfig(group_name="shop", retry_queue_nums=0))

    answer = await reader.send_back(position)

    # A group without retry queues wants none.
    assert answer.code == ResponseCode.SUCCESS
    assert len(reader.handled) == 1
    assert reader.stage.stored_end("SCHEDULE_TOPIC_XXXX", 2) == 2


async def test_retry_queues_have_their_turns(reader: Reader) -> None:
    groups = reader.stage.broker.groups.table
    groups.put(SubscriptionGroupConfig(group_name="shop", retry_queue_nums=4))
    for _ in range(9):
        assert (await reader.send_back(await reader.message())).code == ResponseCode.SUCCESS
    assert len(reader.handled) == 1

    waiting = (await reader.client.await_stored("SCHEDULE_TOPIC_XXXX", 11, queue_id=2))[3:]

    queues = [int(properties_of(record)["REAL_QID"]) for record in waiting]
    assert [(queue - queues[0]) % 4 for queue in queues] == [0, 1, 2, 3, 0, 1, 2, 3]


def _frame(code: int, fields: dict[str, object], serializer: Serializer, opaque: int) -> bytes:
    ext = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()
    }
    return encode(Command(code, opaque=opaque, ext=ext, serializer=serializer))
