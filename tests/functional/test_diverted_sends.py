"""Messages that wait elsewhere first, by the shortcut: the kernel sends them where Python would."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import ManualStage, Peer, after_a_crash, properties_of, running_stage, settle
from slave_stage import successor
from transaction_steps import COMMIT, GROUP, ROLLBACK, answer_check, end

from pyromq.codes import RequestCode, ResponseCode, SysFlag
from pyromq.kernel import IS_COMPILED
from pyromq.testing.requests import batch_body, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire import properties as names
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id
from pyromq.wire.recall_handle import RecallHandle, decode_recall_handle
from pyromq.wire.record import Record, decode_record

needs_kernel = pytest.mark.skipif(not IS_COMPILED, reason="without the kernel there is no shortcut")

SCHEDULE, TIMER, HALVES = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC"
NOW_MS, HOUR_MS = 1_700_000_000_000, 3_600_000
HALF = {"TRAN_MSG": "true", "PGROUP": GROUP}
#: What asks for each kind, the queue in which the message waits, and how long.
KINDS = {
    "level": ({"DELAY": "3"}, (SCHEDULE, 2), 10_000),
    "highest level": ({"DELAY": "99"}, (SCHEDULE, 17), 2 * HOUR_MS),
    "seconds": ({"TIMER_DELAY_SEC": "60"}, (TIMER, 0), 60_000),
    "milliseconds": ({"TIMER_DELAY_MS": "1500"}, (TIMER, 0), 1_500),
    "time": ({"TIMER_DELIVER_MS": str(NOW_MS + 7_000)}, (TIMER, 0), 7_000),
    "half": (HALF, (HALVES, 0), None),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


class Watched:
    """A broker, and the codes of the requests that its Python looked at."""

    def __init__(self, stage: ManualStage) -> None:
        self.stage = stage
        self.broker = stage.broker
        self.client = stage.connect()
        self.seen: list[int] = []
        self.broker._table.guard(lambda request: self.seen.append(request.command.code))

    async def send(self, properties: dict[str, str], *, count: int, **more: object) -> list[Command]:
        """Send messages one behind the other; their bodies are their numbers."""
        flag = SysFlag.TRANSACTION_PREPARED if names.TRANSACTION_PREPARED in properties else 0
        answers = [
            await self.client.send(
                "orders", b"%d" % number, properties=properties, sys_flag=int(flag), **more
            )  # type: ignore[arg-type]
            for number in range(count)
        ]
        assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
        return answers

    def waiting(self, topic: str, queue_id: int) -> list[Record]:
        """Return what waits in a queue of the broker's own, with the tags code of each entry as its time."""
        store = self.broker.store
        records = []
        for entry in store.entries(topic, queue_id, 0, 100):
            record = store.record_at(entry.position)
            assert record is not None
            assert record.size == entry.size
            records.append(record)
        return records


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    async with running_stage(tmp_path / "broker") as stage:
        # The first makes the topic, the second is learnt.
        for queue_id in (0, 3):
            await stage.connect().send("orders", b"first", queue_id=queue_id)
        yield Watched(stage)


@needs_kernel
@each_kind
async def test_after_the_first_of_a_kind_the_kernel_takes_the_next(watched: Watched, kind: str) -> None:
    properties, place, _ = KINDS[kind]
    answers = await watched.send(properties | {"KEYS": "k1 k2", "TAGS": "a"}, count=5)

    assert watched.seen == [RequestCode.SEND_MESSAGE]
    assert [(answer.ext or {})["queueOffset"] for answer in answers] == list("01234")
    assert [record.body for record in watched.waiting(*place)] == [b"%d" % number for number in range(5)]


@each_kind
async def test_what_waits_says_where_it_belongs_as_the_first_does(watched: Watched, kind: str) -> None:
    properties, place, delay_ms = KINDS[kind]
    answers = await watched.send({**properties, "WAIT": "true", "TAGS": "a"}, count=3, queueId=2)

    first, *others = watched.waiting(*place)
    for record, answer in zip(others, answers[1:], strict=True):
        assert record.properties == first.properties.replace(
            properties_of(first)["UNIQ_KEY"], properties_of(record)["UNIQ_KEY"]
        )
        assert (answer.ext or {}).keys() == (answers[0].ext or {}).keys()
        assert (answer.ext or {})["queueId"] == "2"
        assert parse_offset_message_id((answer.ext or {})["msgId"]).position == record.position
        assert (record.sys_flag, record.flag) == (first.sys_flag, first.flag) == (0, 0)
    assert (
        properties_of(others[0]).items() >= {"REAL_TOPIC": "orders", "REAL_QID": "2", "WAIT": "true"}.items()
    )
    times = {entry.tags_code for entry in watched.broker.store.entries(*place, 0, 3)}
    assert times == ({97} if delay_ms is None else {NOW_MS + delay_ms})


@each_kind
async def test_a_message_can_be_found_by_its_key_while_it_waits(watched: Watched, kind: str) -> None:
    properties, place, _ = KINDS[kind]
    await watched.send(properties | {"KEYS": "k1 k2"}, count=3)

    found = watched.broker.store.query(place[0], "k2", count_max=9, begin_ms=0, end_ms=1 << 60)

    assert len(found.records) == 3


async def test_a_timed_message_can_be_taken_back_by_its_handle(watched: Watched) -> None:
    answers = await watched.send({"TIMER_DELAY_MS": "1500", "UNIQ_KEY": "7F00AB"}, count=3)
    handle = (answers[-1].ext or {})["recallHandle"]

    broker_name = watched.broker.settings.broker.broker_name
    assert decode_recall_handle(handle) == RecallHandle("orders", broker_name, NOW_MS + 1_500, "7F00AB")
    fields = {"producerGroup": GROUP, "topic": "orders", "recallHandle": handle}
    assert (await watched.client.request(RequestCode.RECALL_MESSAGE, fields)).code == ResponseCode.SUCCESS
    watched.stage.clock.advance(2_000)
    await settle()
    assert [record.body for record in await watched.client.stored("orders")] == [b"first"]


@pytest.mark.parametrize("version", [409, 500])
async def test_a_client_of_5_x_hears_its_own_id_beside_the_handle(watched: Watched, version: int) -> None:
    fields = send_v2_fields("orders", {"TIMER_DELAY_SEC": "5", "UNIQ_KEY": 'A"quoted"id'})
    for _ in range(3):
        text = {name: str(value) for name, value in fields.items()}
        answer = await watched.client.request(RequestCode.SEND_MESSAGE_V2, text, body=b"x", version=version)
        ext = answer.ext or {}
        assert decode_recall_handle(ext["recallHandle"]).message_id == 'A"quoted"id'
        assert ext.get("transactionId") == ('A"quoted"id' if version == 500 else None)


@pytest.mark.parametrize("kind", [kind for kind, (_, _, delay_ms) in KINDS.items() if delay_ms])
async def test_what_waits_is_delivered_once_and_in_order(watched: Watched, kind: str) -> None:
    properties, _, delay_ms = KINDS[kind]
    assert delay_ms is not None
    await watched.send(properties, count=40)
    watched.stage.clock.advance(delay_ms - 1)
    await settle()
    assert len(await watched.client.stored("orders")) == 1

    watched.stage.clock.advance(1)

    expected = [b"first", *(b"%d" % number for number in range(40))]
    await aeventually(lambda: watched.stage.stored_end("orders") == len(expected))
    assert [record.body for record in await _all(watched.client)] == expected
    watched.stage.clock.advance(HOUR_MS)
    await settle()
    assert len(await _all(watched.client)) == 41


async def _all(client: Peer) -> list[Record]:
    records: list[Record] = []
    while more := await client.stored("orders", offset=len(records)):
        records += more
    return records


async def test_a_topic_that_only_gets_delayed_messages_has_them_delivered(tmp_path: Path) -> None:
    async with running_stage(tmp_path / "broker") as stage:
        watched = Watched(stage)
        await watched.send({"DELAY": "1"}, count=1)
        watched.seen.clear()
        await watched.send({"DELAY": "1"}, count=4, queueId=3)

        if IS_COMPILED:
            # The topic is on the disk only now.
            assert watched.seen == [RequestCode.SEND_MESSAGE]
        stage.clock.advance(1_000)
        assert len(await watched.client.await_stored("orders", 4, queue_id=3)) == 4


async def test_halves_are_committed_rolled_back_and_asked_about(watched: Watched) -> None:
    client = watched.client
    await client.heartbeat(producer=GROUP)
    halves = await watched.send(HALF, count=4, group=GROUP)

    assert (await end(client, halves[1], COMMIT)).code == ResponseCode.SUCCESS
    assert (await end(client, halves[2], ROLLBACK)).code == ResponseCode.SUCCESS
    assert [record.body for record in await client.await_stored("orders", 2)] == [b"first", b"1"]
    watched.stage.clock.advance(HOUR_MS)
    await watched.broker.kinds.halves.upkeep(None)  # type: ignore[arg-type]
    await settle()

    asked = client.asked_for(RequestCode.CHECK_TRANSACTION_STATE)
    assert [decode_record(command.body).body for command in asked] == [b"0", b"3"]


@needs_kernel
@pytest.mark.parametrize("count", [12, 13, 24, 25, 49, 300])
async def test_a_message_with_many_properties_is_taken(watched: Watched, count: int) -> None:
    properties = {f"property-{number}": str(number) for number in range(count)}
    await watched.send(properties, count=1)
    watched.seen.clear()
    await watched.send(properties, count=2)
    await watched.send(properties | {"DELAY": "3"}, count=3)

    assert watched.seen == [RequestCode.SEND_MESSAGE]
    by_python, by_kernel = (await watched.client.stored("orders"))[1:3]
    # Python's is the order of Java's map, however large.
    assert list(properties_of(by_kernel)) == list(properties_of(by_python))
    delayed = [list(properties_of(record)) for record in watched.waiting(SCHEDULE, 2)]
    assert delayed[0] == delayed[1] == delayed[2]
    assert len(delayed[0]) == count + 5


@needs_kernel
async def test_properties_in_one_bucket_are_left_to_python_when_they_are_many(watched: Watched) -> None:
    """Java's hash of them is the same; to look for two of one name takes the square of their number."""
    words = [""]
    for _ in range(5):
        words = [word + pair for word in words for pair in ("Aa", "BB")]
    await watched.send(dict.fromkeys(words[:16], "x"), count=2)
    assert watched.seen == []
    await watched.send(dict.fromkeys(words, "x"), count=2)
    assert watched.seen == [RequestCode.SEND_MESSAGE] * 2


@needs_kernel
async def test_batches_are_taken_whatever_properties_their_messages_have(watched: Watched) -> None:
    many = {f"property-{number}": "x" * 50 for number in range(300)}
    fields = send_v2_fields("orders", {f"common-{number}": "y" for number in range(40)}, batch=True)
    async with WireClient(watched.stage.address) as client:
        for properties in ({}, {"KEYS": "k"}, many, {"DELAY": "3"}, HALF, {"large": "x" * 31_000}):
            body = batch_body([b"one", b"two"], properties)
            answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, fields, body)
            assert answer.code == ResponseCode.SUCCESS, answer.remark

    assert watched.seen == []
    assert len(await _all(watched.client)) == 1 + 12


async def test_halves_are_refused_right_after_they_may_not_be_sent(watched: Watched) -> None:
    await watched.send(HALF, count=3)
    settings = b"rejectTransactionMessage=true"
    assert (await watched.client.request(RequestCode.UPDATE_BROKER_CONFIG, body=settings)).code == 0

    for _ in range(3):
        answer = await watched.client.send("orders", properties=HALF, sys_flag=4)
        assert answer.code == ResponseCode.NO_PERMISSION
    assert len(watched.waiting(HALVES, 0)) == 3


@each_kind
async def test_a_broker_that_died_delivers_what_waited_once(
    watched: Watched, tmp_path: Path, kind: str
) -> None:
    properties, _, delay_ms = KINDS[kind]
    await watched.send(properties, count=5, group=GROUP)
    expected = [b"first", *(b"%d" % number for number in range(5))]

    async with after_a_crash(watched.stage, tmp_path / "second") as survivor:
        await _is_let_out(survivor, delay_ms)
        assert [record.body for record in await survivor.connect().await_stored("orders", 6)] == expected


@each_kind
async def test_a_replica_that_becomes_master_delivers_what_waited_once(
    watched: Watched, tmp_path: Path, kind: str
) -> None:
    properties, _, delay_ms = KINDS[kind]
    await watched.send(properties, count=5, group=GROUP)
    expected = [b"first", *(b"%d" % number for number in range(5))]

    async with successor(watched.stage, tmp_path / "slave") as master:
        await _is_let_out(master, delay_ms)
        assert [record.body for record in await master.connect().await_stored("orders", 6)] == expected


async def _is_let_out(stage: ManualStage, delay_ms: int | None) -> None:
    """Let time pass, or let the producer commit what it is asked about."""
    if delay_ms is not None:
        stage.clock.advance(delay_ms)
        return
    client = stage.connect()
    await client.heartbeat(producer=GROUP)
    stage.clock.advance(HOUR_MS)
    await stage.broker.kinds.halves.upkeep(None)  # type: ignore[arg-type]
    await settle()
    for check in client.asked_for(RequestCode.CHECK_TRANSACTION_STATE):
        assert (await answer_check(client, check, COMMIT)).code == ResponseCode.SUCCESS
