import asyncio
from pathlib import Path

import pytest

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.command import Command
from pyromq.wire.record import iter_records

QUEUE = {"topic": "orders", "queueId": 0}
PROGRESS = {"consumerGroup": "readers", **QUEUE}
ALL_TIMES = {"beginTimestamp": 0, "endTimestamp": 9_000_000_000_000}


async def send(client: WireClient, body: bytes = b"x", **properties: str) -> str:
    answer = await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders", properties), body)
    assert answer.ext is not None
    return answer.ext["msgId"]


async def commit(client: WireClient, offset: int) -> Command:
    return await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**PROGRESS, "commitOffset": offset})


async def progress(client: WireClient, **changes: object) -> Command:
    return await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, {**PROGRESS, **changes})


# Progress --------------------------------------------------------------------------------------------------


@pytest.mark.row("OF-06", "MM-12")
async def test_what_was_committed_is_read_next(client: WireClient) -> None:
    await send(client)
    answer = await commit(client, 1)
    assert (answer.code, answer.ext, answer.body) == (ResponseCode.SUCCESS, {}, b"")
    assert (await progress(client)).ext == {"offset": "1"}


@pytest.mark.row("OF-07")
async def test_a_oneway_commit_counts_and_is_not_answered(client: WireClient) -> None:
    client.tell(RequestCode.UPDATE_CONSUMER_OFFSET, {**PROGRESS, "commitOffset": 5})
    assert (await progress(client)).ext == {"offset": "5"}


@pytest.mark.row("OF-09")
async def test_a_new_group_starts_a_young_queue_at_its_begin(client: WireClient) -> None:
    await send(client)
    assert (await progress(client)).ext == {"offset": "0"}


@pytest.mark.row("OF-09")
async def test_a_new_group_starts_a_queue_that_does_not_exist_yet_at_zero(client: WireClient) -> None:
    assert (await progress(client)).ext == {"offset": "0"}


@pytest.mark.row("OF-04")
async def test_a_new_group_chooses_itself_where_to_start_an_old_queue(tmp_path: Path) -> None:
    # No message is young when none of the memory counts as the place of young messages.
    async with (
        Cluster(data_dir=tmp_path, access_message_in_memory_max_ratio=0) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        await send(client)
        answer = await progress(client)
    assert (answer.code, answer.remark, answer.ext) == (
        ResponseCode.QUERY_NOT_FOUND,
        "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
        {},
    )


async def test_a_negative_offset_counts_as_none(client: WireClient) -> None:
    await commit(client, -5)
    assert (await progress(client)).ext == {"offset": "0"}


async def test_a_newer_client_may_ask_not_to_be_given_zero(client: WireClient) -> None:
    answer = await progress(client, setZeroIfNotFound=False)
    assert answer.code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.row("OF-01")
async def test_progress_is_on_disk_within_five_seconds(
    tmp_path: Path, client: WireClient, clock: ManualClock
) -> None:
    await commit(client, 3)
    path = tmp_path / "broker-a" / "config" / "consumerOffset.json"
    assert not path.exists()

    clock.advance(5_000)

    await aeventually(path.exists)
    assert path.read_text() == '{\n\t"offsetTable":{\n\t\t"orders@readers":{0:3\n\t\t}\n\t}\n}'


@pytest.mark.row("OF-03")
async def test_progress_survives_a_restart_of_the_broker(cluster: Cluster, client: WireClient) -> None:
    await commit(client, 3)
    await cluster.stop_broker("broker-a")
    await cluster.start_broker("broker-a")
    async with WireClient(cluster.broker_addresses[0]) as again:
        assert (await progress(again)).ext == {"offset": "3"}


# Queues ----------------------------------------------------------------------------------------------------


@pytest.mark.row("PR-18")
async def test_begin_and_end_of_a_queue(client: WireClient) -> None:
    await send(client)
    await send(client)
    assert (await client.ask(RequestCode.GET_MIN_OFFSET, QUEUE)).ext == {"offset": "0"}
    assert (await client.ask(RequestCode.GET_MAX_OFFSET, QUEUE)).ext == {"offset": "2"}


@pytest.mark.row("PR-18")
async def test_an_offset_is_found_by_time(client: WireClient, clock: ManualClock) -> None:
    times = []
    for _ in range(3):
        await send(client)
        times.append(clock.now_ms())
        clock.advance(1_000)

    asked = {**QUEUE, "timestamp": times[1]}
    assert (await client.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, asked)).ext == {"offset": "1"}


@pytest.mark.row("PR-18")
async def test_the_time_of_a_queues_first_message(client: WireClient, clock: ManualClock) -> None:
    await send(client)
    stored_at_ms = clock.now_ms()
    clock.advance(1_000)
    await send(client)
    answer = await client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, QUEUE)
    assert answer.ext == {"timestamp": str(stored_at_ms)}


async def test_an_empty_queue_has_no_first_message(client: WireClient) -> None:
    answer = await client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, QUEUE)
    assert answer.ext == {"timestamp": "-1"}


# Messages --------------------------------------------------------------------------------------------------


async def query(client: WireClient, key: str, **changes: object) -> Command:
    return await client.ask(
        RequestCode.QUERY_MESSAGE, {"topic": "orders", "key": key, "maxNum": 32, **ALL_TIMES, **changes}
    )


def bodies(answer: Command) -> list[bytes]:
    return [record.body for record in iter_records(answer.body)]


@pytest.mark.row("PR-18", "ST-24")
async def test_messages_are_found_by_their_keys(client: WireClient) -> None:
    await send(client, b"one", KEYS="k1 k2")
    await send(client, b"two", KEYS="k2")
    assert bodies(await query(client, "k1")) == [b"one"]
    assert bodies(await query(client, "k2")) == [b"one", b"two"]


@pytest.mark.row("PR-18", "MM-03")
async def test_a_message_is_found_by_its_unique_id(client: WireClient) -> None:
    unique_id = "7F000001000018B4AAC2000000000000"
    await send(client, b"one", UNIQ_KEY=unique_id)
    assert bodies(await query(client, unique_id, _UNIQUE_KEY_QUERY=True)) == [b"one"]


async def test_a_key_that_nobody_used_is_answered_as_not_found(client: WireClient) -> None:
    await send(client, b"one", KEYS="k1")
    answer = await query(client, "k3")
    assert (answer.code, answer.remark) == (
        ResponseCode.QUERY_NOT_FOUND,
        "can not find message, maybe time range not correct",
    )


async def test_messages_outside_the_time_asked_for_are_not_found(
    client: WireClient, clock: ManualClock
) -> None:
    await send(client, b"one", KEYS="k1")
    later = clock.now_ms() + 60_000
    answer = await query(client, "k1", beginTimestamp=later, endTimestamp=later + 60_000)
    assert answer.code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.row("PR-18", "MM-04")
async def test_a_message_is_found_by_its_offset_id(client: WireClient) -> None:
    await send(client, b"one")
    message_id = await send(client, b"two")
    position = int(message_id[16:], 16)
    answer = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": position})
    assert bodies(answer) == [b"two"]


@pytest.mark.parametrize("position", [1, 10**12, -5])
async def test_a_place_where_no_message_begins_is_refused(client: WireClient, position: int) -> None:
    await send(client, b"one")
    answer = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": position})
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        f"can not find message by the offset, {position}",
    )


async def test_many_questions_may_be_under_way_on_one_connection(client: WireClient) -> None:
    await send(client)
    asked = [client.begin(RequestCode.GET_MAX_OFFSET, QUEUE) for _ in range(200)]
    answers = await asyncio.gather(*asked)
    assert [answer.ext for answer in answers] == [{"offset": "1"}] * 200
