"""Delayed messages, on a clock that is moved by hand."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import HOUR_MS, ManualStage, properties_of, running_stage, settle

from pyromq.codes import RequestCode, ResponseCode
from pyromq.store.delay_levels import parse_delay_levels
from pyromq.testing.waiting import aeventually

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
LEVELS_MS = parse_delay_levels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[ManualStage]:
    async with running_stage(tmp_path) as stage:
        yield stage


@pytest.mark.row("DE-03", "DE-04", "DE-07", "MM-09")
async def test_a_delayed_message_waits_in_the_schedule_topic(stage: ManualStage) -> None:
    client = stage.connect()

    answer = await client.send("orders", queue_id=2, properties={"DELAY": "3", "TAGS": "paid"})

    assert answer.code == ResponseCode.SUCCESS
    assert (answer.ext or {})["queueId"] == "2"
    assert await client.stored("orders", 2) == []
    (waiting,) = await client.stored(SCHEDULE, queue_id=2)
    properties = properties_of(waiting)
    assert (properties["REAL_TOPIC"], properties["REAL_QID"], properties["DELAY"]) == ("orders", "2", "3")


@pytest.mark.row("DE-08", "DE-09")
async def test_a_delayed_message_is_delivered_when_it_is_due_and_not_before(stage: ManualStage) -> None:
    client = stage.connect()
    await client.send("orders", b"later", queue_id=1, properties={"DELAY": "3", "TAGS": "paid"}, flag=7)

    stage.clock.advance(9_999)
    await settle()
    assert await client.stored("orders", 1) == []

    stage.clock.advance(1)
    (delivered,) = await client.await_stored("orders", queue_id=1)
    assert (delivered.body, delivered.flag, delivered.queue_id) == (b"later", 7, 1)
    assert delivered.stored_at_ms - delivered.born_at_ms == 10_000
    # As RocketMQ stores it: the properties of the waiting message, unchanged.
    assert properties_of(delivered)["REAL_TOPIC"] == "orders"
    assert properties_of(delivered)["TAGS"] == "paid"


@pytest.mark.row("DE-08")
async def test_a_held_pull_wakes_when_a_delayed_message_is_delivered(stage: ManualStage) -> None:
    sender, reader = stage.connect("sender"), stage.connect("reader")
    await sender.send("orders", b"first")
    await sender.send("orders", b"later", properties={"DELAY": "1"})
    pulling = await stage.hold(reader.pull("orders", 0, 1, hold_ms=15_000))

    stage.clock.advance(1_000)

    answer = await pulling
    assert b"later" in answer.body


@pytest.mark.row("DE-01")
@pytest.mark.parametrize("level", sorted(LEVELS_MS))
async def test_each_level_has_its_delay(stage: ManualStage, level: int) -> None:
    client = stage.connect()
    await client.send("orders", properties={"DELAY": str(level)})

    stage.clock.advance(LEVELS_MS[level] - 1)
    await settle()
    assert await client.stored("orders") == []

    stage.clock.advance(1)
    assert await client.await_stored("orders")


@pytest.mark.row("DE-03")
async def test_a_level_above_the_highest_is_the_highest(stage: ManualStage) -> None:
    client = stage.connect()

    await client.send("orders", properties={"DELAY": "99"})

    (waiting,) = await client.stored(SCHEDULE, queue_id=17)
    assert properties_of(waiting)["DELAY"] == "18"
    stage.clock.advance(2 * HOUR_MS)
    assert await client.await_stored("orders")


@pytest.mark.row("MM-09")
@pytest.mark.parametrize("level", ["0", "-1", "soon", "9" * 5000])
async def test_a_level_that_is_none_does_not_delay(stage: ManualStage, level: str) -> None:
    client = stage.connect()

    await client.send("orders", properties={"DELAY": level})

    assert await client.stored("orders")


@pytest.mark.row("DE-02")
async def test_levels_can_be_configured(tmp_path: Path) -> None:
    async with running_stage(tmp_path, message_delay_level="3s 1d") as stage:
        client = stage.connect()
        await client.send("orders", properties={"DELAY": "2"})

        stage.clock.advance(24 * HOUR_MS - 1)
        await settle()
        assert await client.stored("orders") == []

        stage.clock.advance(1)
        assert await client.await_stored("orders")


@pytest.mark.row("DE-05")
async def test_a_levels_folder_is_made_when_it_is_needed(stage: ManualStage) -> None:
    client = stage.connect()
    assert not (stage.folder / "consumequeue" / SCHEDULE).exists()

    await client.send("orders", properties={"DELAY": "5"})
    await stage.restart()

    assert [queue.name for queue in (stage.folder / "consumequeue" / SCHEDULE).iterdir()] == ["4"]


async def test_a_nearer_message_is_not_kept_waiting_by_a_farther_one(stage: ManualStage) -> None:
    client = stage.connect()
    await client.send("orders", b"far", properties={"DELAY": "18"})
    await client.send("orders", b"near", properties={"DELAY": "1"})

    stage.clock.advance(1_000)

    (delivered,) = await client.await_stored("orders")
    assert delivered.body == b"near"


async def test_messages_of_a_level_are_delivered_in_order_and_all(stage: ManualStage) -> None:
    client = stage.connect()
    count = 300
    for at in range(count):
        await client.send("orders", str(at).encode(), properties={"DELAY": "2"})

    stage.clock.advance(5_000)

    async def delivered() -> list[int]:
        bodies: list[int] = []
        while found := await client.stored("orders", 0, len(bodies)):
            bodies += [int(record.body) for record in found]
        return bodies if len(bodies) >= count else []

    assert await aeventually(delivered) == list(range(count))


@pytest.mark.row("DE-12")
async def test_what_waits_survives_a_restart_and_is_delivered_once(stage: ManualStage) -> None:
    client = stage.connect()
    await client.send("orders", b"before", properties={"DELAY": "3"})
    stage.clock.advance(10_000)
    await client.await_stored("orders")
    await client.send("orders", b"after", properties={"DELAY": "3"})

    await stage.restart()
    stage.clock.advance(10_000)

    client = stage.connect()
    delivered = await client.await_stored("orders", 2)
    assert [record.body for record in delivered] == [b"before", b"after"]


@pytest.mark.row("DE-12")
async def test_what_came_due_while_the_broker_was_down_is_delivered_at_its_start(stage: ManualStage) -> None:
    client = stage.connect()
    await client.send("orders", properties={"DELAY": "3"})

    stage.clock.advance(1_000)
    await stage.close()
    stage.clock.advance(HOUR_MS)
    await stage.restart()

    assert await stage.connect().await_stored("orders")


@pytest.mark.row("DE-12")
async def test_progress_is_written_as_rocketmq_writes_it(stage: ManualStage) -> None:
    client = stage.connect()
    await client.send("orders", properties={"DELAY": "1"})
    stage.clock.advance(1_000)
    await client.await_stored("orders")

    answer = await client.request(RequestCode.GET_ALL_DELAY_OFFSET)
    stage.clock.advance(10_000)
    path = stage.folder / "config" / "delayOffset.json"
    await aeventually(path.exists)

    assert answer.body == b'{"offsetTable":{1:1}}'
    # Where the log ended is our own note, which RocketMQ passes over.
    assert re.sub(r',\n\t"logPosition":\d+', "", path.read_text()) == '{\n\t"offsetTable":{1:1\n\t}\n}'


@pytest.mark.row("DE-12")
async def test_a_broker_that_delivered_nothing_answers_an_empty_table(stage: ManualStage) -> None:
    answer = await stage.connect().request(RequestCode.GET_ALL_DELAY_OFFSET)

    assert (answer.code, answer.ext, answer.body) == (0, None, b'{"offsetTable":{}}')


async def test_progress_beyond_the_queue_is_corrected(stage: ManualStage) -> None:
    await stage.close()
    path = stage.folder / "config" / "delayOffset.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"offsetTable": {"1": 1000}}))
    await stage.restart()
    client = stage.connect()

    await client.send("orders", properties={"DELAY": "1"})
    stage.clock.advance(1_000)

    assert await client.await_stored("orders")
