"""Taking back and listing messages that wait for their time, in frames, on a clock that is moved by hand."""

import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from kinds_stage import HOUR_MS, ManualStage, Peer, after_a_crash, properties_of, running_stage, settle

from pyromq.broker.requests.handlers import timer_handlers as handlers
from pyromq.codes import RequestCode, ResponseCode
from pyromq.wire.command import Command
from pyromq.wire.recall_handle import RecallHandle, decode_recall_handle
from pyromq.wire.record import Record, iter_records

pytestmark = pytest.mark.row("DE-10")

Fields = Mapping[str, object]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[ManualStage]:
    async with running_stage(tmp_path) as stage:
        yield stage


async def send_timed(client: Peer, delay_ms: int, topic: str = "orders", **more: object) -> str:
    """Send a message that waits, and return its handle."""
    properties = {"TIMER_DELAY_MS": str(delay_ms), **more.pop("properties", {})}  # type: ignore[dict-item]
    answer = await client.send(topic, properties=properties, **more)  # type: ignore[arg-type]
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return (answer.ext or {})["recallHandle"]


async def recall(client: Peer, handle: str, topic: str = "orders") -> Command:
    return await client.request(
        RequestCode.RECALL_MESSAGE, {"producerGroup": "producers", "topic": topic, "recallHandle": handle}
    )


async def listed(client: Peer, **fields: object) -> list[Record]:
    """Return all pages."""
    records: list[Record] = []
    place: dict[str, object] = {}
    while True:
        answer = await client.request(RequestCode.LIST_WAITING, {**fields, **place})
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        records += iter_records(answer.body)
        ext = answer.ext or {}
        if "nextDueMs" not in ext:
            return records
        place = {"afterDueMs": ext["nextDueMs"], "afterPosition": ext["nextPosition"]}


async def test_the_answer_to_a_timed_send_has_the_handle_that_names_it(stage: ManualStage) -> None:
    client = stage.connect()

    handle = decode_recall_handle(await send_timed(client, HOUR_MS, queue_id=1))

    (waiting,) = await listed(client)
    assert handle == RecallHandle(
        topic="orders",
        broker_name="broker-a",
        due_ms=stage.clock.now_ms() + HOUR_MS,
        message_id=properties_of(waiting)["UNIQ_KEY"],
    )


@pytest.mark.parametrize(
    "properties", [{}, {"DELAY": "3"}, {"TIMER_DELIVER_MS": "1"}, {"TIMER_DELAY_MS": "0"}]
)
async def test_what_does_not_wait_for_a_time_of_its_own_has_no_handle(
    stage: ManualStage, properties: dict[str, str]
) -> None:
    answer = await stage.connect().send("orders", properties=properties)

    assert answer.code == ResponseCode.SUCCESS
    assert "recallHandle" not in (answer.ext or {})


async def test_a_recalled_message_is_never_delivered(stage: ManualStage) -> None:
    client = stage.connect()
    handle = await send_timed(client, HOUR_MS)
    await send_timed(client, HOUR_MS + 1, body=b"other")

    answer = await recall(client, handle)

    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert (answer.ext or {})["msgId"] == decode_recall_handle(handle).message_id
    assert [record.body for record in await listed(client)] == [b"other"]
    stage.clock.advance(2 * HOUR_MS)
    (delivered,) = await client.await_stored("orders")
    await settle()
    assert delivered.body == b"other"
    assert len(await client.stored("orders")) == 1


#: How far a message waits: in memory, and in the table.
NEAR_MS, FAR_MS = 1_500, 30 * HOUR_MS


async def send_twice(stage: ManualStage, client: Peer, delay_ms: int, later_ms: int = 0) -> tuple[str, str]:
    """Send a message as a producer does whose first answer was lost, and return both handles."""
    properties = {"UNIQ_KEY": stage.next_id()}
    first = await send_timed(client, delay_ms, properties=properties)
    stage.clock.advance(later_ms)
    second = await send_timed(client, delay_ms, properties=properties)
    await send_timed(client, delay_ms, body=b"other")
    return first, second


@pytest.mark.parametrize("with_index", [True, False], ids=["index", "no index"])
@pytest.mark.parametrize("delay_ms", [NEAR_MS, FAR_MS], ids=["near", "far"])
@pytest.mark.parametrize("later_ms", [0, 1_000])
@pytest.mark.parametrize("which", [0, 1])
async def test_a_recall_takes_back_every_copy_of_a_message_that_was_sent_again(
    tmp_path: Path, with_index: bool, delay_ms: int, later_ms: int, which: int
) -> None:
    async with running_stage(tmp_path, message_index_enable=with_index) as stage:
        client = stage.connect()
        handle = (await send_twice(stage, client, delay_ms, later_ms))[which]

        answer = await recall(client, handle)

        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert [record.body for record in await listed(client)] == [b"other"]
        await stage.restart()
        client = stage.connect()
        stage.clock.advance(2 * delay_ms)
        await client.await_stored("orders")
        await settle()
        assert [record.body for record in await client.stored("orders")] == [b"other"]
        again = await recall(client, handle)
        assert again.code == ResponseCode.ILLEGAL_OPERATION


async def test_copies_stay_recalled_after_a_kill_and_without_their_table(
    stage: ManualStage, tmp_path: Path
) -> None:
    client = stage.connect()
    handle, _ = await send_twice(stage, client, FAR_MS)
    await recall(client, handle)

    async with after_a_crash(stage, tmp_path.parent / f"{tmp_path.name}-killed") as survivor:
        client = survivor.connect()
        assert [record.body for record in await listed(client)] == [b"other"]
        await survivor.close()
        shutil.rmtree(survivor.folder / "timers")
        await survivor.restart()
        assert [record.body for record in await listed(survivor.connect())] == [b"other"]


async def test_copies_that_were_sent_before_a_restart_are_taken_back_after_it(stage: ManualStage) -> None:
    client = stage.connect()
    _, handle = await send_twice(stage, client, FAR_MS, 3_000)
    await stage.restart()
    client = stage.connect()

    assert (await recall(client, handle)).code == ResponseCode.SUCCESS
    assert [record.body for record in await listed(client)] == [b"other"]


async def test_a_copy_that_was_delivered_is_told_and_the_others_are_taken_back(stage: ManualStage) -> None:
    client = stage.connect()
    _, handle = await send_twice(stage, client, NEAR_MS, 1_000)
    stage.clock.advance(NEAR_MS - 1_000)
    await client.await_stored("orders")

    answer = await recall(client, handle)

    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert "a copy was delivered already" in (answer.remark or "")
    assert [record.body for record in await listed(client)] == [b"other"]


async def test_the_same_id_in_another_topic_is_another_message(stage: ManualStage) -> None:
    client = stage.connect()
    properties = {"UNIQ_KEY": "SAME"}
    handle = await send_timed(client, HOUR_MS, properties=properties)
    await send_timed(client, HOUR_MS, "bills", properties=properties, body=b"bill")

    assert (await recall(client, handle)).code == ResponseCode.SUCCESS

    assert [record.body for record in await listed(client)] == [b"bill"]


async def test_a_recall_holds_after_a_restart(stage: ManualStage) -> None:
    client = stage.connect()
    handle = await send_timed(client, HOUR_MS)
    await send_timed(client, HOUR_MS, body=b"other")
    await recall(client, handle)

    await stage.restart()

    client = stage.connect()
    assert [record.body for record in await listed(client)] == [b"other"]
    stage.clock.advance(2 * HOUR_MS)
    assert [record.body for record in await client.await_stored("orders")] == [b"other"]


async def test_what_was_recalled_or_delivered_cannot_be_recalled(stage: ManualStage) -> None:
    client = stage.connect()
    recalled, delivered = await send_timed(client, HOUR_MS), await send_timed(client, 1_000)
    await recall(client, recalled)
    stage.clock.advance(1_000)
    await client.await_stored("orders")

    for handle in (recalled, delivered):
        answer = await recall(client, handle)
        assert answer.code == ResponseCode.ILLEGAL_OPERATION
        assert "was delivered or recalled already" in (answer.remark or "")


async def test_a_recall_that_names_nothing_here_is_refused_as_rocketmq_refuses_it(stage: ManualStage) -> None:
    client = stage.connect()
    due_ms = stage.clock.now_ms() + HOUR_MS
    await send_timed(client, HOUR_MS)
    cases = {
        "recall handle is invalid": "nonsense",
        "recall failed, topic not match": RecallHandle("bills", "broker-a", due_ms, "X").encode(),
        "recall failed, broker service not available": RecallHandle("orders", "b", due_ms, "X").encode(),
    }

    for remark, handle in cases.items():
        answer = await recall(client, handle)
        assert (answer.code, answer.remark) == (ResponseCode.ILLEGAL_OPERATION, remark)
    unknown = await recall(client, RecallHandle("nowhere", "broker-a", due_ms, "X").encode(), "nowhere")
    assert unknown.code == ResponseCode.TOPIC_NOT_EXIST
    stranger = await recall(client, RecallHandle("orders", "broker-a", due_ms, "X").encode())
    assert stranger.code == ResponseCode.ILLEGAL_OPERATION


async def test_what_waits_is_listed_by_due_time_and_goes_when_it_is_delivered(stage: ManualStage) -> None:
    client = stage.connect()
    for delay_ms in (3_000, 1_000, 2 * HOUR_MS, 2_000):
        await send_timed(client, delay_ms, body=b"%d" % delay_ms)

    assert [record.body for record in await listed(client)] == [b"1000", b"2000", b"3000", b"7200000"]

    stage.clock.advance(2_000)
    await client.await_stored("orders", 2)
    assert [record.body for record in await listed(client)] == [b"3000", b"7200000"]


async def test_a_list_has_pages_and_loses_and_repeats_nothing(stage: ManualStage) -> None:
    client = stage.connect()
    # Many are due together.
    for number in range(150):
        await send_timed(client, HOUR_MS + number // 50, body=b"%d" % number)

    for page in (1, 7, 64, 1_000):
        records = await listed(client, maxNum=page)
        assert [int(record.body) for record in records] == list(range(150))


async def test_a_page_ends_when_enough_was_looked_at(
    stage: ManualStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "LOOKED_AT_MAX", handlers.TURN)
    client = stage.connect()
    for number in range(handlers.TURN + 5):
        await send_timed(client, HOUR_MS + number, topic="orders" if number > handlers.TURN else "bills")

    first = await client.request(RequestCode.LIST_WAITING, {"topic": "orders"})

    assert first.body == b""
    assert "nextDueMs" in (first.ext or {})
    assert len(await listed(client, topic="orders")) == 4


async def test_a_page_ends_when_it_is_large(stage: ManualStage) -> None:
    client = stage.connect()
    for _ in range(5):
        await send_timed(client, HOUR_MS, body=b"x" * 100_000)

    page = await client.request(RequestCode.LIST_WAITING, {"maxNum": 100})

    assert len(list(iter_records(page.body))) == 3
    assert len(await listed(client, maxNum=100)) == 5


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"topic": "bills"}, ["b1"]),
        ({"topic": "nothing"}, []),
        ({"key": "order-2"}, ["a2"]),
        ({"key": "both"}, ["a1", "b1"]),
        ({"key": "both", "topic": "bills"}, ["b1"]),
        ({"key": "order-9"}, []),
        ({"begin": 2_000, "end": 3_000}, ["a2", "b1"]),
        ({"begin": 2_001}, ["b1"]),
        ({"key": "both", "end": 1_000}, ["a1"]),
        ({"end": 999}, []),
    ],
)
async def test_a_list_is_of_a_topic_a_key_and_a_time(
    stage: ManualStage, fields: dict[str, object], found: list[str]
) -> None:
    client = stage.connect()
    now_ms = stage.clock.now_ms()
    await send_timed(client, 1_000, body=b"a1", properties={"KEYS": "order-1 both"})
    await send_timed(client, 2_000, body=b"a2", properties={"KEYS": "order-2"})
    await send_timed(client, 3_000, "bills", body=b"b1", properties={"KEYS": "both"})
    asked = {name: value for name, value in fields.items() if name not in ("begin", "end")}
    if "begin" in fields:
        asked["beginDueMs"] = now_ms + int(str(fields["begin"]))
    if "end" in fields:
        asked["endDueMs"] = now_ms + int(str(fields["end"]))

    assert [record.body.decode() for record in await listed(client, **asked)] == found


async def test_a_message_is_found_by_its_id_while_it_waits(stage: ManualStage) -> None:
    client = stage.connect()
    message_id = decode_recall_handle(await send_timed(client, 1_000)).message_id
    other = await send_timed(client, 1_000)

    assert len(await listed(client, key=message_id)) == 1

    await recall(client, other)
    stage.clock.advance(1_000)
    await client.await_stored("orders")
    for gone in (message_id, decode_recall_handle(other).message_id):
        assert await listed(client, key=gone) == []


async def test_those_who_only_count_get_a_number(stage: ManualStage) -> None:
    client = stage.connect()
    for delay_ms in (1_000, HOUR_MS, HOUR_MS):
        await send_timed(client, delay_ms)

    async def count() -> int:
        answer = await client.request(RequestCode.LIST_WAITING, {"maxNum": 0, "withCount": True})
        assert answer.body == b""
        return int((answer.ext or {})["waitingCount"])

    nothing = await client.request(RequestCode.LIST_WAITING, {"maxNum": 0})
    assert (nothing.code, nothing.ext, nothing.body) == (ResponseCode.SUCCESS, {}, b"")
    assert await count() == 3
    stage.clock.advance(1_000)
    await client.await_stored("orders")
    assert await count() == 2


async def test_a_retried_message_has_no_handle(stage: ManualStage) -> None:
    client = stage.connect()
    await client.heartbeat(consumer="readers")

    answer = await client.send("%RETRY%readers", properties={"TIMER_DELAY_MS": "1000"})

    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert "recallHandle" not in (answer.ext or {})
