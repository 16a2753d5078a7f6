"""Transactions: halves, their ends, and the questions about those that nobody ended."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from kinds_stage import HOUR_MS, ManualStage, Peer, properties_of, running_stage, settle
from staged_files import StagedFiles
from transaction_steps import (
    COMMIT,
    GROUP,
    HALF,
    INTERVAL_MS,
    ROLLBACK,
    UNKNOWN,
    answer_check,
    await_checks,
    end,
    end_fields,
    send_half,
)

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.golden import read_frames
from pyromq.testing.waiting import aeventually
from pyromq.wire.message_id import parse_offset_message_id
from pyromq.wire.record import Record, decode_record

OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
GOLDEN = Path(__file__).parents[1] / "conformance" / "golden"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[ManualStage]:
    # Clients cannot read the broker's own topics unless its table has them.
    topics = {topic: {"topicName": topic, "readQueueNums": 1, "writeQueueNums": 1} for topic in (HALF, OP)}
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    async with running_stage(tmp_path) as stage:
        yield stage


async def visible(client: Peer) -> list[Record]:
    return await client.stored("orders", 2)


@pytest.mark.row("TX-01", "MM-08")
async def test_a_half_message_is_invisible(stage: ManualStage) -> None:
    client = stage.connect()

    answer = await send_half(client)

    assert answer.code == ResponseCode.SUCCESS
    assert (answer.ext or {})["queueOffset"] == "0"
    assert await visible(client) == []
    (half,) = await client.stored(HALF)
    properties = properties_of(half)
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("orders", "2")
    assert properties["WAIT"] == "true"
    assert half.sys_flag & 0xC == 0


@pytest.mark.row("TX-02", "TX-03", "TX-11")
async def test_a_commit_makes_the_message_visible(stage: ManualStage) -> None:
    client = stage.connect()
    half = await send_half(client, b"pay 7")

    answer = await end(client, half, COMMIT)

    assert (answer.code, answer.remark, answer.ext, answer.body) == (0, None, None, b"")
    (message,) = await visible(client)
    assert (message.body, message.queue_id, message.sys_flag & 0xC) == (b"pay 7", 2, COMMIT)
    assert message.prepared_position == parse_offset_message_id((half.ext or {})["msgId"]).position
    (op,) = await client.stored(OP)
    assert (op.body, properties_of(op)["TAGS"]) == (b"0", "d")


@pytest.mark.row("TX-03", "TX-11")
async def test_a_rollback_leaves_nothing_to_consume(stage: ManualStage) -> None:
    client = stage.connect()
    await send_half(client)
    half = await send_half(client)

    answer = await end(client, half, ROLLBACK)

    assert answer.code == ResponseCode.SUCCESS
    assert await visible(client) == []
    (op,) = await client.stored(OP)
    assert op.body == b"1"


@pytest.mark.row("TX-03")
async def test_an_end_that_does_not_know_is_not_answered_and_decides_nothing(stage: ManualStage) -> None:
    client = stage.connect()
    half = await send_half(client)

    await client.oneway(RequestCode.END_TRANSACTION, end_fields(half, UNKNOWN))

    assert (await end(client, half, COMMIT)).code == ResponseCode.SUCCESS


@pytest.mark.row("TX-03")
async def test_a_oneway_commit_commits(stage: ManualStage) -> None:
    client = stage.connect()
    half = await send_half(client)

    await client.oneway(RequestCode.END_TRANSACTION, end_fields(half, COMMIT))

    await aeventually(lambda: visible(client))


@pytest.mark.row("TX-03")
@pytest.mark.parametrize(
    ("changed", "remark"),
    [
        ({"producerGroup": "others"}, "The producer group wrong"),
        ({"tranStateTableOffset": 5}, "The transaction state table offset wrong"),
        ({"commitLogOffset": 3}, "Find prepared transaction message failed"),
    ],
)
async def test_an_end_of_another_transaction_is_refused(
    stage: ManualStage, changed: dict[str, object], remark: str
) -> None:
    client = stage.connect()
    half = await send_half(client)

    answer = await end(client, half, COMMIT, **changed)

    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert await visible(client) == []


async def test_an_end_of_what_is_no_half_is_refused(stage: ManualStage) -> None:
    client = stage.connect()
    sent = await client.send("orders", properties={"PGROUP": GROUP})

    answer = await end(client, sent, COMMIT)

    assert answer.remark == "Find prepared transaction message failed"


@pytest.mark.row("TX-03")
@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("second", [COMMIT, ROLLBACK])
async def test_a_transaction_is_decided_once(stage: ManualStage, first: int, second: int) -> None:
    client = stage.connect()
    half = await send_half(client)
    await end(client, half, first)

    answer = await end(client, half, second)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "already" in (answer.remark or "")
    assert len(await visible(client)) == (1 if first == COMMIT else 0)
    assert len(await client.stored(OP)) == 1


async def test_a_transaction_is_decided_once_even_over_a_restart(stage: ManualStage) -> None:
    client = stage.connect()
    half = await send_half(client)
    await end(client, half, ROLLBACK)

    await stage.restart()
    client = stage.connect()
    answer = await end(client, half, COMMIT)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert await visible(client) == []


@pytest.mark.row("TX-03")
@pytest.mark.parametrize("fate", [COMMIT, ROLLBACK])
async def test_an_end_of_a_half_that_the_log_does_not_keep_any_more_is_refused(
    tmp_path: Path, fate: int
) -> None:
    all_day = ";".join(f"{hour:02d}" for hour in range(24))
    settings = {"mapped_file_size_commit_log": 4096, "delete_when": all_day}
    async with running_stage(tmp_path, file_reserved_time=1, **settings) as stage:
        client = stage.connect()
        half = await send_half(client)
        for _ in range(40):
            await client.send("orders", bytes(200), queue_id=2)
        stage.clock.advance(3 * HOUR_MS)

        async def is_gone() -> bool:
            answer = await client.request(RequestCode.GET_MIN_OFFSET, {"topic": "orders", "queueId": 2})
            stage.clock.advance(10_000)
            return int((answer.ext or {})["offset"]) > 0

        await aeventually(is_gone)

        answer = await end(client, half, fate)

        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "Find prepared transaction message failed"


@pytest.mark.row("TX-09")
async def test_a_half_is_answered_when_the_disk_has_it_and_so_is_its_end(tmp_path: Path) -> None:
    """Two phases, each of them one synchronous request to one broker; no lock is held in between."""
    files = StagedFiles()
    async with running_stage(tmp_path, files=files, flush_disk_type="SYNC_FLUSH") as stage:
        client, other = stage.connect("client"), stage.connect("other")
        store = stage.broker.store
        await client.send("orders")
        with files.held_syncs():
            sending = asyncio.ensure_future(send_half(client))
            await aeventually(lambda: store.max_offset(HALF, 0) == 1)
            assert not sending.done()
        half = await sending
        assert await visible(client) == []

        # Whoever else sends to the topic is not kept waiting by the open transaction.
        await other.send("orders", b"other", queue_id=2)
        with files.held_syncs():
            ending = asyncio.ensure_future(end(client, half, COMMIT))
            await aeventually(lambda: store.max_offset(OP, 0) == 1)
            assert not ending.done()

        assert (await ending).code == ResponseCode.SUCCESS
        assert [record.body for record in await visible(client)] == [b"other", b"pay"]


async def test_a_broker_may_refuse_transactions(tmp_path: Path) -> None:
    async with running_stage(tmp_path, reject_transaction_message=True) as stage:
        answer = await send_half(stage.connect())

        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark == "the broker[127.0.0.1] sending transaction message is forbidden"


@pytest.mark.row("DE-11")
async def test_a_half_is_not_delayed_and_neither_is_its_message(stage: ManualStage) -> None:
    client = stage.connect()

    half = await send_half(client, DELAY="3")
    await end(client, half, COMMIT)

    assert len(await visible(client)) == 1


async def test_a_property_that_says_no_makes_no_half(stage: ManualStage) -> None:
    client = stage.connect()

    await client.send("orders", queue_id=2, properties={"TRAN_MSG": "false"})

    assert len(await visible(client)) == 1


async def test_a_committed_message_that_is_sent_back_is_retried_as_a_message(stage: ManualStage) -> None:
    client = stage.connect()
    await end(client, await send_half(client), COMMIT)
    (message,) = await visible(client)

    fields = {"offset": message.position, "group": "shop", "delayLevel": 1}
    await client.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
    stage.clock.advance(1_000)

    (retried,) = await client.await_stored("%RETRY%shop")
    assert retried.body == b"pay"


@pytest.mark.row("TX-01", "TX-04")
async def test_a_recorded_half_and_its_copy_are_stored_as_rocketmq_stored_them(stage: ManualStage) -> None:
    """In the recording the halves of one broker are 338 bytes apart, and their copies 364."""
    frames = read_frames(GOLDEN / "frames_java_4.9.8.jsonl")
    recorded = next(frame.command for frame in frames if b"TRAN_MSG" in frame.header)
    client = stage.connect()
    fields: dict[str, object] = {**(recorded.ext or {}), "g": stage.clock.now_ms()}

    sent = await client.request(recorded.code, fields, body=recorded.body)
    stage.clock.advance(INTERVAL_MS)

    assert sent.code == ResponseCode.SUCCESS
    half, copy = await client.await_stored(HALF, 2)
    assert (half.size, copy.size) == (338, 364)


# Questions about what nobody ended.


@pytest.mark.row("TX-04", "TX-06")
async def test_an_undecided_transaction_is_asked_about(stage: ManualStage) -> None:
    client = stage.connect()
    await client.heartbeat(producer=GROUP)
    half = await send_half(client, b"pay 9")

    stage.clock.advance(INTERVAL_MS)
    (check,) = await await_checks(client, 1)

    assert check.is_oneway
    copy = (await client.stored(HALF))[1]
    assert properties_of(copy)["TRANSACTION_CHECK_TIMES"] == "1"
    ext = check.ext or {}
    assert int(ext["tranStateTableOffset"]) == copy.queue_offset == 1
    assert int(ext["commitLogOffset"]) == copy.position
    assert parse_offset_message_id(ext["offsetMsgId"]).position == copy.position
    asked = decode_record(check.body)
    assert ext["msgId"] == ext["transactionId"] == properties_of(asked)["UNIQ_KEY"]
    assert (asked.topic, asked.queue_id, asked.body) == ("orders", 2, b"pay 9")
    assert (asked.queue_offset, asked.position) == (copy.queue_offset, copy.position)
    assert asked.stored_at_ms == asked.born_at_ms
    assert (half.ext or {})["queueOffset"] == "0"


@pytest.mark.row("TX-04")
@pytest.mark.parametrize(("fate", "visible_count"), [(COMMIT, 1), (ROLLBACK, 0)])
async def test_the_answer_to_a_question_decides(stage: ManualStage, fate: int, visible_count: int) -> None:
    client = stage.connect()
    await client.heartbeat(producer=GROUP)
    await send_half(client)
    stage.clock.advance(INTERVAL_MS)
    (check,) = await await_checks(client, 1)

    answer = await answer_check(client, check, fate)

    assert answer.code == ResponseCode.SUCCESS
    assert len(await visible(client)) == visible_count
    stage.clock.advance(INTERVAL_MS)
    stage.clock.advance(INTERVAL_MS)
    await settle()
    assert len(client.asked_for(RequestCode.CHECK_TRANSACTION_STATE)) == 1


@pytest.mark.row("TX-04")
async def test_a_late_end_of_the_first_half_decides_the_copy_too(stage: ManualStage) -> None:
    client = stage.connect()
    await client.heartbeat(producer=GROUP)
    half = await send_half(client)
    stage.clock.advance(INTERVAL_MS)
    (check,) = await await_checks(client, 1)

    assert (await end(client, half, COMMIT)).code == ResponseCode.SUCCESS

    assert "already" in ((await answer_check(client, check, COMMIT)).remark or "")
    assert "already" in ((await end(client, half, ROLLBACK)).remark or "")
    assert len(await visible(client)) == 1
    stage.clock.advance(INTERVAL_MS)
    await settle()
    assert len(client.asked_for(RequestCode.CHECK_TRANSACTION_STATE)) == 1


@pytest.mark.row("TX-05")
async def test_members_of_the_group_are_asked_in_turn(stage: ManualStage) -> None:
    members = [stage.connect("one"), stage.connect("two"), stage.connect("three")]
    for member in members:
        await member.heartbeat(producer=GROUP)
    for _ in range(6):
        await send_half(members[0])

    stage.clock.advance(INTERVAL_MS)

    for member in members:
        await await_checks(member, 2)
        assert len(member.asked_for(RequestCode.CHECK_TRANSACTION_STATE)) == 2


@pytest.mark.row("TX-06")
async def test_a_young_transaction_is_left_alone(tmp_path: Path) -> None:
    async with running_stage(tmp_path, transaction_check_interval=1_000) as stage:
        client = stage.connect()
        await client.heartbeat(producer=GROUP)
        await send_half(client)

        for _ in range(5):
            stage.clock.advance(1_000)
            await settle()
        assert client.asked_for(RequestCode.CHECK_TRANSACTION_STATE) == []
        stage.clock.advance(1_000)

        await await_checks(client, 1)


async def pass_by(
    stage: ManualStage, client: Peer, times: int, asked: Callable[[int], Awaitable[object]]
) -> None:
    for at in range(1, times + 1):
        stage.clock.advance(INTERVAL_MS)
        await asked(at)


@pytest.mark.row("TX-07")
async def test_after_fifteen_questions_a_transaction_is_given_up(stage: ManualStage) -> None:
    client = stage.connect()
    await client.heartbeat(producer=GROUP)
    half = await send_half(client, b"pay 15")
    await pass_by(stage, client, 15, lambda at: await_checks(client, at))

    stage.clock.advance(INTERVAL_MS)

    (given_up,) = await client.await_stored(GIVEN_UP)
    assert given_up.body == b"pay 15"
    assert properties_of(given_up)["TRANSACTION_CHECK_TIMES"] == "15"
    assert len(client.asked_for(RequestCode.CHECK_TRANSACTION_STATE)) == 15
    assert "given up" in ((await end(client, half, COMMIT)).remark or "")
    assert await visible(client) == []


@pytest.mark.row("TX-08")
async def test_a_transaction_may_ask_for_more_time(stage: ManualStage) -> None:
    client = stage.connect()
    await client.heartbeat(producer=GROUP)
    patient = await send_half(client, b"patient", CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    await send_half(client, b"other")

    async def copied(at: int) -> None:
        await aeventually(lambda: _count_is(client, HALF, b"patient", at + 1))

    await pass_by(stage, client, 20, copied)
    asked = [decode_record(check.body).body for check in client.asked_for(39)]
    assert set(asked) == {b"other"}

    stage.clock.advance(HOUR_MS)

    def is_asked() -> bool:
        return any(decode_record(check.body).body == b"patient" for check in client.asked_for(39))

    await aeventually(is_asked)
    assert (await end(client, patient, COMMIT)).code == ResponseCode.SUCCESS
    assert [record.body for record in await visible(client)] == [b"patient"]


async def _count_is(client: Peer, topic: str, body: bytes, count: int) -> bool:
    found, offset = 0, 0
    while records := await client.stored(topic, 0, offset):
        offset += len(records)
        found += sum(record.body == body for record in records)
    return found == count


@pytest.mark.row("TX-08")
async def test_an_end_within_the_immunity_decides_the_copies_too(stage: ManualStage) -> None:
    client = stage.connect()
    await client.heartbeat(producer=GROUP)
    half = await send_half(client, CHECK_IMMUNITY_TIME_IN_SECONDS="600")
    stage.clock.advance(INTERVAL_MS)
    await aeventually(lambda: _count_is(client, HALF, b"pay", 2))

    await end(client, half, COMMIT)

    assert len(await visible(client)) == 1
    stage.clock.advance(HOUR_MS)
    stage.clock.advance(HOUR_MS)
    await settle()
    assert client.asked_for(RequestCode.CHECK_TRANSACTION_STATE) == []


async def test_a_half_without_room_for_a_question_is_given_up_and_holds_up_no_others(
    stage: ManualStage,
) -> None:
    client = stage.connect()
    await client.heartbeat(producer=GROUP)
    measure = await send_half(client, filler="x")
    await end(client, measure, ROLLBACK)
    (measured,) = await client.stored(HALF)
    await send_half(client, b"full", filler="x" * (32_767 - len(measured.properties)))
    await send_half(client, b"other")

    stage.clock.advance(INTERVAL_MS)

    (check,) = await await_checks(client, 1)
    assert decode_record(check.body).body == b"other"
    (given_up,) = await client.await_stored(GIVEN_UP)
    assert given_up.body == b"full"


async def test_a_transaction_older_than_the_log_is_kept_is_given_up_unasked(stage: ManualStage) -> None:
    client = stage.connect()
    await client.heartbeat(producer=GROUP)
    await send_half(client)

    stage.clock.advance(73 * HOUR_MS)

    assert await client.await_stored(GIVEN_UP)
    assert client.asked_for(RequestCode.CHECK_TRANSACTION_STATE) == []


async def test_a_group_that_is_not_there_is_asked_when_it_comes(stage: ManualStage) -> None:
    client = stage.connect()
    await send_half(client)
    stage.clock.advance(INTERVAL_MS)
    await aeventually(lambda: _count_is(client, HALF, b"pay", 2))

    await client.heartbeat(producer=GROUP)
    stage.clock.advance(INTERVAL_MS)

    (check,) = await await_checks(client, 1)
    assert properties_of(decode_record(check.body))["TRANSACTION_CHECK_TIMES"] == "2"


async def test_that_nobody_can_be_asked_is_logged_once_a_pass(
    stage: ManualStage, caplog: pytest.LogCaptureFixture
) -> None:
    client = stage.connect()
    for _ in range(100):
        await send_half(client)
    caplog.clear()

    stage.clock.advance(INTERVAL_MS)
    await aeventually(lambda: any("about 100 halves" in record.message for record in caplog.records))

    assert sum("to be asked" in record.message for record in caplog.records) == 1


async def test_many_decided_halves_before_an_undecided_one_do_not_hide_it(stage: ManualStage) -> None:
    client = stage.connect()
    await client.heartbeat(producer=GROUP)
    for at in range(200):
        half = await send_half(client, str(at).encode())
        if at != 150:
            await end(client, half, COMMIT)

    stage.clock.advance(INTERVAL_MS)

    (check,) = await await_checks(client, 1)
    assert decode_record(check.body).body == b"150"


@pytest.mark.row("TX-04", "TX-11")
async def test_questions_go_on_after_a_restart_where_they_stopped(stage: ManualStage) -> None:
    client = stage.connect()
    await client.heartbeat(producer=GROUP)
    decided = await send_half(client, b"decided")
    await send_half(client, b"undecided")
    await end(client, decided, COMMIT)
    await pass_by(stage, client, 3, lambda at: await_checks(client, at))

    await stage.restart()
    client = stage.connect()
    await client.heartbeat(producer=GROUP)
    stage.clock.advance(INTERVAL_MS)

    (check,) = await await_checks(client, 1)
    asked = decode_record(check.body)
    assert asked.body == b"undecided"
    assert properties_of(asked)["TRANSACTION_CHECK_TIMES"] == "4"
    assert (await answer_check(client, check, COMMIT)).code == ResponseCode.SUCCESS
    assert [record.body for record in await visible(client)] == [b"decided", b"undecided"]


@pytest.mark.row("TX-04")
async def test_a_half_from_before_a_restart_can_be_ended_after_it(stage: ManualStage) -> None:
    client = stage.connect()
    half = await send_half(client)
    stage.clock.advance(INTERVAL_MS)
    await aeventually(lambda: _count_is(client, HALF, b"pay", 2))

    await stage.restart()
    client = stage.connect()
    await client.heartbeat(producer=GROUP)

    assert (await end(client, half, COMMIT)).code == ResponseCode.SUCCESS
    assert len(await visible(client)) == 1
    stage.clock.advance(INTERVAL_MS)
    await settle()
    assert client.asked_for(RequestCode.CHECK_TRANSACTION_STATE) == []


@pytest.mark.row("TX-04", "TX-07")
async def test_with_a_restart_after_every_question_there_are_fifteen_and_one_given_up(
    stage: ManualStage,
) -> None:
    half = await send_half(stage.connect(), b"pay 15")
    for times in range(1, 16):
        await stage.restart()
        client = stage.connect()
        await client.heartbeat(producer=GROUP)
        stage.clock.advance(INTERVAL_MS)
        (check,) = await await_checks(client, 1)
        assert properties_of(decode_record(check.body))["TRANSACTION_CHECK_TIMES"] == str(times)
    for _ in range(3):
        await stage.restart()
        client = stage.connect()
        await client.heartbeat(producer=GROUP)
        stage.clock.advance(INTERVAL_MS)
        (given_up,) = await client.await_stored(GIVEN_UP)
        await settle()

    assert given_up.body == b"pay 15"
    assert client.asked_for(RequestCode.CHECK_TRANSACTION_STATE) == []
    assert "given up" in ((await end(client, half, COMMIT)).remark or "")
    assert await visible(client) == []


@pytest.mark.row("TX-08")
async def test_an_immunity_holds_over_restarts(stage: ManualStage) -> None:
    half = await send_half(stage.connect(), CHECK_IMMUNITY_TIME_IN_SECONDS="600")
    for minutes in range(1, 10):
        await stage.restart()
        client = stage.connect()
        await client.heartbeat(producer=GROUP)
        stage.clock.advance(INTERVAL_MS)
        await aeventually(partial(_count_is, client, HALF, b"pay", minutes + 1))
        assert client.asked_for(RequestCode.CHECK_TRANSACTION_STATE) == []

    stage.clock.advance(INTERVAL_MS)

    (check,) = await await_checks(client, 1)
    assert (await answer_check(client, check, COMMIT)).code == ResponseCode.SUCCESS
    assert "already" in ((await end(client, half, ROLLBACK)).remark or "")
    assert len(await visible(client)) == 1


# Many that nobody ends.


async def test_many_undecided_transactions_are_asked_about_in_bounded_turns(stage: ManualStage) -> None:
    """Counted in turns of the loop, which client and broker share: others are answered in between."""
    client, other = stage.connect("client"), stage.connect("other")
    await client.heartbeat(producer=GROUP)
    count = 1_000
    for _ in range(count):
        await send_half(client)
    answered_between = 0

    stage.clock.advance(INTERVAL_MS)
    while len(client.asked_for(RequestCode.CHECK_TRANSACTION_STATE)) < count:
        await other.request(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})
        answered_between += 1

    # Sixty-four are looked at in a turn, and an answer takes two or three turns.
    assert answered_between >= count // 64 // 4
