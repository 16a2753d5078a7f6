"""Messages with a delay of their own, on a clock that is moved by hand."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import (
    HOUR_MS,
    ManualStage,
    Peer,
    after_a_crash,
    properties_of,
    running_real_stage,
    running_stage,
    settle,
)
from retention_stage import LOOK_MS, RetentionStage, local_ms, retention_stage

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id
from pyromq.wire.record import Record, decode_record, iter_records

DAY_MS = 24 * HOUR_MS
WHEEL_TIMER = "rmq_sys_wheel_timer"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[ManualStage]:
    async with running_stage(tmp_path / "first") as stage:
        yield stage


async def send_later(client: Peer, delay_ms: int, body: bytes = b"later", **more: str) -> Command:
    answer = await client.send("orders", body, properties={"TIMER_DELAY_MS": str(delay_ms), **more})
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer


async def record_of(client: Peer, sent: Command) -> Record:
    position = parse_offset_message_id((sent.ext or {})["msgId"]).position
    answer = await client.request(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": position})
    return decode_record(answer.body)


async def list_waiting(client: Peer) -> list[Record]:
    answer = await client.request(RequestCode.LIST_WAITING, {"maxNum": 1000})
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return list(iter_records(answer.body))


async def bodies_in(client: Peer, topic: str = "orders") -> list[bytes]:
    """Return all bodies of queue 0 of a topic."""
    bodies: list[bytes] = []
    while records := await client.stored(topic, 0, len(bodies)):
        bodies += [record.body for record in records]
    return bodies


async def await_bodies(client: Peer, count: int) -> list[bytes]:
    async def enough() -> list[bytes]:
        bodies = await bodies_in(client)
        return bodies if len(bodies) >= count else []

    return await aeventually(enough, what=f"{count} messages")


# What waits, and where


@pytest.mark.row("DE-10", "MM-09")
async def test_a_timed_message_waits_in_the_timer_topic(stage: ManualStage) -> None:
    client = stage.connect()

    sent = await client.send(
        "orders", queue_id=2, properties={"TIMER_DELAY_MS": "1234", "TAGS": "paid", "KEYS": "k"}
    )

    assert (sent.ext or {})["queueId"] == "2"
    assert await client.stored("orders", 2) == []
    waiting = await record_of(client, sent)
    properties = properties_of(waiting)
    assert (waiting.topic, waiting.queue_id) == (WHEEL_TIMER, 0)
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("orders", "2")
    assert properties["TIMER_OUT_MS"] == str(stage.clock.now_ms() + 1234)


@pytest.mark.row("DE-10", "MM-09")
@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
async def test_it_is_delivered_when_it_is_due_and_not_before(stage: ManualStage, name: str) -> None:
    client = stage.connect()
    due_ms = stage.clock.now_ms() + 90_000
    value = {"TIMER_DELAY_SEC": 90, "TIMER_DELAY_MS": 90_000, "TIMER_DELIVER_MS": due_ms}[name]
    await client.send("orders", b"later", queue_id=1, properties={name: str(value), "TAGS": "paid"}, flag=7)

    stage.clock.advance(89_999)
    await settle()
    assert await client.stored("orders", 1) == []

    stage.clock.advance(1)
    (delivered,) = await client.await_stored("orders", queue_id=1)
    assert (delivered.body, delivered.flag, delivered.queue_id) == (b"later", 7, 1)
    assert delivered.stored_at_ms == due_ms
    properties = properties_of(delivered)
    assert (properties["TAGS"], properties["TIMER_OUT_MS"]) == ("paid", str(due_ms))
    assert properties["TIMER_DEQUEUE_MS"] == str(due_ms)


@pytest.mark.row("DE-10")
async def test_a_year_ahead_is_not_too_far(stage: ManualStage) -> None:
    client = stage.connect()
    await send_later(client, 365 * DAY_MS)

    stage.clock.advance(365 * DAY_MS - 1)
    await settle()
    assert await client.stored("orders") == []

    stage.clock.advance(1)
    assert await client.await_stored("orders")


@pytest.mark.row("DE-10")
@pytest.mark.parametrize("delay_ms", [0, -5])
async def test_a_time_that_has_come_is_no_delay(stage: ManualStage, delay_ms: int) -> None:
    client = stage.connect()

    await send_later(client, delay_ms)

    assert await client.stored("orders")


@pytest.mark.row("DE-10")
@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": str(366 * 24 * 3600 + 1)},
        {"TIMER_DELAY_MS": "soon"},
        {"TIMER_DELAY_MS": "9" * 5000},
        {"TIMER_DELIVER_MS": "9" * 19},
        {"TIMER_DELAY_MS": "5000", "TIMER_DEL_UNIQKEY": "orders+1"},
    ],
)
async def test_what_is_too_far_or_no_time_is_refused(stage: ManualStage, properties: dict[str, str]) -> None:
    client = stage.connect()

    answer = await client.send("orders", properties=properties)

    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert str(366 * DAY_MS) in (answer.remark or "")
    assert await list_waiting(client) == []


@pytest.mark.row("DE-10")
async def test_timers_can_be_switched_off_and_what_waits_is_delivered(tmp_path: Path) -> None:
    async with running_stage(tmp_path) as stage:
        await send_later(stage.connect(), 5_000)
        clock = stage.clock
    async with running_stage(tmp_path, clock=clock, timer_wheel_enable=False) as stage:
        client = stage.connect()

        answer = await client.send("orders", properties={"TIMER_DELAY_MS": "5000"})

        assert (answer.code, "timerWheelEnable" in (answer.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        stage.clock.advance(5_000)
        assert await await_bodies(client, 1) == [b"later"]


@pytest.mark.row("DE-10")
async def test_a_level_goes_before_a_time(stage: ManualStage) -> None:
    client = stage.connect()

    await client.send("orders", properties={"DELAY": "1", "TIMER_DELAY_SEC": "500"})

    stage.clock.advance(1_000)
    (delivered,) = await client.await_stored("orders")
    assert "TIMER_DELAY_SEC" not in properties_of(delivered)


@pytest.mark.row("DE-11")
async def test_half_a_transaction_does_not_wait(stage: ManualStage) -> None:
    client = stage.connect()

    properties = {"TRAN_MSG": "true", "PGROUP": "payers", "TIMER_DELAY_SEC": "500"}
    sent = await client.send("orders", group="payers", sys_flag=4, properties=properties)

    assert (await record_of(client, sent)).topic == "RMQ_SYS_TRANS_HALF_TOPIC"
    assert await list_waiting(client) == []


@pytest.mark.row("DE-10")
async def test_nobody_sends_to_the_timer_topic_itself(stage: ManualStage) -> None:
    answer = await stage.connect().send(WHEEL_TIMER)

    assert answer.code == ResponseCode.NO_PERMISSION


@pytest.mark.row("DE-10")
async def test_a_delivered_message_that_is_retried_does_not_wait_for_its_time_again(
    stage: ManualStage,
) -> None:
    client = stage.connect()
    await client.heartbeat(consumer="readers")
    await send_later(client, 3_000)
    stage.clock.advance(3_000)
    (delivered,) = await client.await_stored("orders")

    fields = {"offset": delivered.position, "group": "readers", "delayLevel": 0, "originTopic": "orders"}
    answer = await client.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)

    assert answer.code == ResponseCode.SUCCESS, answer.remark
    stage.clock.advance(10_000)
    (retried,) = await client.await_stored("%RETRY%readers")
    assert retried.body == b"later"


# Order and number


@pytest.mark.row("DE-10")
async def test_they_come_in_the_order_of_their_times(stage: ManualStage) -> None:
    client = stage.connect()
    for delay_ms in (70_000, 500, 9_000, 500, 40_000):
        await send_later(client, delay_ms, b"%d" % delay_ms)

    for _ in range(70):
        stage.clock.advance(1_000)
        await settle()

    assert await await_bodies(client, 5) == [b"500", b"500", b"9000", b"40000", b"70000"]


@pytest.mark.row("DE-10")
async def test_many_that_are_due_at_once_come_each_once(stage: ManualStage) -> None:
    client = stage.connect()
    for number in range(500):
        await send_later(client, 5_000 + number % 3, b"%d" % number)

    stage.clock.advance(DAY_MS)

    bodies = await await_bodies(client, 500)
    assert sorted(map(int, bodies)) == list(range(500))


@pytest.mark.row("DE-10")
async def test_a_held_pull_wakes_when_one_is_delivered(stage: ManualStage) -> None:
    sender, reader = stage.connect("sender"), stage.connect("reader")
    await sender.send("orders", b"first")
    await send_later(sender, 1_000)
    pulling = await stage.hold(reader.pull("orders", 0, 1, hold_ms=15_000))

    stage.clock.advance(1_000)

    assert b"later" in (await pulling).body


@pytest.mark.row("DE-10")
async def test_on_a_real_clock_none_comes_before_its_time(tmp_path: Path) -> None:
    async with running_real_stage(tmp_path) as stage:
        client = stage.connect()
        for delay_ms in (150, 1, 80, 20):
            answer = await client.send("orders", b"later", properties={"TIMER_DELAY_MS": str(delay_ms)})
            assert answer.code == ResponseCode.SUCCESS

        delivered = await client.await_stored("orders", 4)

    early = [
        record
        for record in delivered
        if record.stored_at_ms < int(properties_of(record).get("TIMER_OUT_MS", "0"))
    ]
    assert early == []


# Restarts and crashes


@pytest.mark.row("DE-10")
async def test_what_waits_survives_a_restart(stage: ManualStage) -> None:
    await send_later(stage.connect(), 60_000)

    await stage.restart()

    client = stage.connect()
    assert len(await list_waiting(client)) == 1
    stage.clock.advance(60_000)
    assert await await_bodies(client, 1) == [b"later"]


@pytest.mark.row("DE-10")
async def test_what_came_due_while_the_broker_was_down_is_delivered_at_the_start(tmp_path: Path) -> None:
    async with running_stage(tmp_path) as stage:
        await send_later(stage.connect(), 60_000)
        clock = stage.clock
    clock.advance(DAY_MS)

    async with running_stage(tmp_path, clock=clock) as stage:
        assert await await_bodies(stage.connect(), 1) == [b"later"]


@pytest.mark.row("DE-10")
async def test_what_waits_survives_a_kill(stage: ManualStage, tmp_path: Path) -> None:
    await send_later(stage.connect(), 60_000)

    async with after_a_crash(stage, tmp_path / "second") as survivor:
        survivor.clock.advance(60_000)

        assert await await_bodies(survivor.connect(), 1) == [b"later"]


@pytest.mark.row("DE-10")
@pytest.mark.parametrize("is_written", [False, True])
async def test_what_was_delivered_before_a_kill_does_not_come_again(
    stage: ManualStage, tmp_path: Path, *, is_written: bool
) -> None:
    client = stage.connect()
    await send_later(client, 1_000, b"first")
    await send_later(client, 60_000, b"second")
    stage.clock.advance(1_000)
    await await_bodies(client, 1)
    if is_written:
        stage.clock.advance(1_000)
        await aeventually((stage.folder / "timers" / "waiting.db").exists)

    async with after_a_crash(stage, tmp_path / "second") as survivor:
        survivor.clock.advance(60_000)

        assert await await_bodies(survivor.connect(), 2) == [b"first", b"second"]
        assert await list_waiting(survivor.connect()) == []


@pytest.mark.row("DE-10")
@pytest.mark.parametrize("damage", ["absent", "no database", "torn", "of another log"])
async def test_a_table_that_is_damaged_is_made_again_from_the_log(tmp_path: Path, damage: str) -> None:
    async with running_stage(tmp_path / "other") as other:
        for _ in range(30):
            await send_later(other.connect(), 1_000, b"another")
    async with running_stage(tmp_path / "first") as stage:
        client = stage.connect()
        for delay_ms in (1_000, 50_000, 2_000, 60_000):
            await send_later(client, delay_ms, b"%d" % delay_ms)
        stage.clock.advance(2_000)
        await await_bodies(client, 2)
        clock = stage.clock
    table = tmp_path / "first" / "timers" / "waiting.db"
    if damage == "absent":
        table.unlink()
    elif damage == "no database":
        table.write_bytes(b"x" * 10_000)
    elif damage == "torn":
        data = table.read_bytes()
        table.write_bytes(data[:4096] + bytes(len(data) - 4096))
    else:
        table.write_bytes((tmp_path / "other" / "timers" / "waiting.db").read_bytes())

    async with running_stage(tmp_path / "first", clock=clock) as stage:
        client = stage.connect()
        assert len(await list_waiting(client)) == 2
        stage.clock.advance(60_000)
        assert await await_bodies(client, 4) == [b"1000", b"2000", b"50000", b"60000"]


@pytest.mark.row("DE-10")
async def test_a_broker_that_never_had_one_makes_no_table(stage: ManualStage) -> None:
    await stage.connect().send("orders")
    stage.clock.advance(60_000)
    await settle()

    await stage.restart()

    assert not (stage.folder / "timers").exists()


# Files that go, and disks that are full


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[RetentionStage]:
    async with retention_stage(tmp_path, now_ms=local_ms(4)) as small:
        yield small


async def let_go(small: RetentionStage, count: int, *, after_ms: int) -> None:
    """Let time pass until so many files of the log are gone."""
    small.clock.advance(after_ms)

    async def are_gone() -> bool:
        await small.look()
        return small.log_files()[0] >= count

    await aeventually(are_gone, what=f"{count} files are gone")


@pytest.mark.row("DE-10", "CL-06")
async def test_a_file_goes_although_a_message_of_it_waits_and_the_message_comes(
    small: RetentionStage,
) -> None:
    await send_later(small.client, 365 * DAY_MS)
    await small.fill(4)

    await let_go(small, 2, after_ms=4 * DAY_MS)

    (waiting,) = await list_waiting(small.client)
    assert properties_of(waiting)["TIMER_ROLL_TIMES"] == "1"
    small.clock.advance(361 * DAY_MS)
    await aeventually(lambda: _is_last(small), what="it is delivered")
    assert await list_waiting(small.client) == []


async def _is_last(small: RetentionStage) -> bool:
    records = await small.client.stored("orders", 0, await small.max_offset() - 1)
    return [record.body for record in records] == [b"later"]


@pytest.mark.row("DE-10", "CL-06")
async def test_it_is_stored_again_and_again_and_comes_once(tmp_path: Path) -> None:
    async with retention_stage(tmp_path, now_ms=local_ms(4)) as small:
        await send_later(small.client, 30 * DAY_MS)
        for round_ in range(1, 4):
            await small.fill(small.log_files()[-1] - small.log_files()[0] + 4)
            await let_go(small, small.log_files()[-1] - 1, after_ms=4 * DAY_MS)
            (waiting,) = await list_waiting(small.client)
            assert int(properties_of(waiting)["TIMER_ROLL_TIMES"]) >= round_

        await small.restart()
        small.clock.advance(30 * DAY_MS)

        await aeventually(lambda: _is_last(small), what="it is delivered")
        assert await list_waiting(small.client) == []


@pytest.mark.row("DE-10", "CL-06")
async def test_even_a_disk_that_is_too_full_lets_files_go_that_hold_waiting_messages(
    small: RetentionStage,
) -> None:
    await send_later(small.client, 10 * DAY_MS)
    await small.fill(4)

    small.files.percent_used = 95
    await let_go(small, 2, after_ms=LOOK_MS)

    assert (await small.client.send("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE
    small.files.percent_used = 10
    await small.look()
    assert len(await list_waiting(small.client)) == 1


@pytest.mark.row("DE-10")
async def test_what_is_due_on_a_full_disk_is_delivered_when_there_is_room(small: RetentionStage) -> None:
    await send_later(small.client, 60_000)
    small.files.percent_used = 95
    await small.look()

    small.clock.advance(60_000)
    await settle()
    assert await small.max_offset() == 0

    small.files.percent_used = 10
    await small.look()
    small.clock.advance(1_000)
    await aeventually(lambda: _is_last(small), what="it is delivered")


# What is asked


@pytest.mark.row("DE-10")
async def test_what_waits_can_be_counted_and_listed_before_and_after_it_is_written(
    stage: ManualStage,
) -> None:
    client = stage.connect()
    for delay_ms in (70_000, 500_000, 9_000):
        await send_later(client, delay_ms, b"%d" % delay_ms)

    async def seen() -> tuple[list[bytes], int]:
        counted = await client.request(RequestCode.LIST_WAITING, {"maxNum": 0, "withCount": True})
        count = int((counted.ext or {})["waitingCount"])
        return [record.body for record in await list_waiting(client)], count

    assert await seen() == ([b"9000", b"70000", b"500000"], 3)
    stage.clock.advance(5_000)
    await aeventually((stage.folder / "timers" / "waiting.db").exists)
    assert await seen() == ([b"9000", b"70000", b"500000"], 3)
    stage.clock.advance(10_000)
    await await_bodies(client, 1)
    assert await seen() == ([b"70000", b"500000"], 2)
