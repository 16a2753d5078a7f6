"""Filters by SQL92 on a broker: by the pull itself, by heartbeats, refused, kept, and woken by."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.codes import PullFlag, RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import batch_body, heartbeat_body, held_pull_fields, pull_fields, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Heartbeat, Subscription, encode_heartbeat
from pyromq.wire.command import Command
from pyromq.wire.record import iter_records

PULL = RequestCode.PULL_MESSAGE
SEND_V2 = RequestCode.SEND_MESSAGE_V2
BY_HEARTBEAT = {"sysFlag": 0, "subscription": "", "subVersion": 1, "expressionType": "SQL92"}
BAD = "amount >"
WHY_BAD = (
    "Invalid MessageSelector. At character 9: the expression ends where a property or a value is expected"
)


@pytest.fixture
async def cluster(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Cluster]:
    async with Cluster(data_dir=tmp_path, clock=clock, enable_property_filter=True) as cluster:
        yield cluster


async def send(client: WireClient, *amounts: int | str, topic: str = "orders", **properties: str) -> None:
    for amount in amounts:
        fields = send_v2_fields(topic, {"amount": str(amount), **properties})
        assert (await client.ask(SEND_V2, fields, str(amount).encode())).code == ResponseCode.SUCCESS


async def pull(client: WireClient, sql: str, **changes: object) -> Command:
    fields = pull_fields("orders", subscription=sql, expressionType="SQL92")
    return await client.ask(PULL, fields | changes)


async def pull_by_heartbeat(client: WireClient, *, version: int = 1) -> Command:
    return await client.ask(PULL, pull_fields("orders") | BY_HEARTBEAT | {"subVersion": version})


async def hold(client: WireClient, fields: dict[str, object]) -> "asyncio.Future[Command]":
    """Begin a pull from offset 1 on, and return when the broker has it."""
    held = client.begin(PULL, fields | {"queueOffset": 1})
    # The connection's requests are handled in order: when this one is answered, the pull is held.
    await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})
    return held


async def subscribe(client: WireClient, sql: str, *, version: int = 1, topic: str = "orders") -> None:
    wanted = Subscription(topic=topic, sub_string=sql, expression_type="SQL92", sub_version=version)
    part = ConsumerPart(group_name="readers", subscriptions=[wanted])
    body = encode_heartbeat(Heartbeat(client_id="c1", consumers=[part]))
    assert (await client.ask(RequestCode.HEART_BEAT, None, body)).code == ResponseCode.SUCCESS


async def check(client: WireClient, sql: str, expression_type: str = "SQL92") -> Command:
    body = json.dumps(
        {
            "clientId": "c1",
            "group": "readers",
            "subscriptionData": {"topic": "orders", "subString": sql, "expressionType": expression_type},
        }
    )
    return await client.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body.encode())


def bodies(answer: Command) -> list[bytes]:
    return [record.body for record in iter_records(answer.body)]


def next_offset(answer: Command) -> int:
    assert answer.ext is not None
    return int(answer.ext["nextBeginOffset"])


# What a pull finds -----------------------------------------------------------------------------------------


@pytest.mark.row("FI-02", "FI-03", "FI-04")
async def test_a_pull_gets_the_messages_that_its_expression_matches(client: WireClient) -> None:
    await send(client, 5, 15, 7, 20)
    answer = await pull(client, "amount > 10")
    assert (answer.code, bodies(answer), next_offset(answer)) == (ResponseCode.SUCCESS, [b"15", b"20"], 4)


@pytest.mark.row("FI-04")
async def test_a_lite_pull_may_be_filtered_too(client: WireClient) -> None:
    await send(client, 5, 15)
    fields = pull_fields("orders", subscription="amount > 10", expressionType="SQL92")
    assert bodies(await client.ask(RequestCode.LITE_PULL_MESSAGE, fields)) == [b"15"]


async def test_the_same_pull_is_filtered_each_time(client: WireClient) -> None:
    await send(client, 5, 15)
    for _ in range(3):
        assert bodies(await pull(client, "amount > 10")) == [b"15"]


async def test_pulls_by_tags_and_by_sql_of_one_group_do_not_mix(client: WireClient) -> None:
    await send(client, 5, 15)
    assert bodies(await client.ask(PULL, pull_fields("orders"))) == [b"5", b"15"]
    assert bodies(await pull(client, "amount > 10")) == [b"15"]
    assert bodies(await client.ask(PULL, pull_fields("orders"))) == [b"5", b"15"]


async def test_the_properties_of_rocketmq_itself_may_be_filtered_by(client: WireClient) -> None:
    await send(client, 1, TAGS="a")
    await send(client, 2, TAGS="b", KEYS="k2")
    assert bodies(await pull(client, "TAGS = 'b' AND KEYS IS NOT NULL")) == [b"2"]


async def test_a_message_without_the_property_or_without_a_number_does_not_match(client: WireClient) -> None:
    await send(client, "many", "1.5", 3)
    assert bodies(await pull(client, "amount > 0")) == [b"3"]
    assert bodies(await pull(client, "missing > 0 OR amount = '1.5'")) == [b"1.5"]


async def test_where_nothing_matches_the_pull_goes_on_behind_it(client: WireClient) -> None:
    await send(client, 1, 2, 3)
    answer = await pull(client, "amount > 10")
    assert (answer.code, answer.remark, next_offset(answer)) == (
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        "NO_MATCHED_MESSAGE",
        3,
    )


async def test_one_pull_looks_at_800_messages_at_most(client: WireClient) -> None:
    for _ in range(9):
        answer = await client.ask(
            RequestCode.SEND_BATCH_MESSAGE,
            send_v2_fields("orders", batch=True),
            batch_body([b"x"] * 100, {"amount": "1"}),
        )
        assert answer.code == ResponseCode.SUCCESS
    await send(client, 15)

    answer = await pull(client, "amount > 10")

    assert (answer.code, next_offset(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 800)
    assert bodies(await pull(client, "amount > 10", queueOffset=800)) == [b"15"]


# Refusals --------------------------------------------------------------------------------------------------


async def test_a_pull_with_a_bad_expression_is_refused_with_the_place_and_the_cause(
    client: WireClient,
) -> None:
    await send(client, 1)
    answer = await pull(client, BAD)
    assert (answer.code, answer.remark) == (ResponseCode.SUBSCRIPTION_PARSE_FAILED, WHY_BAD)


@pytest.mark.row("FI-02")
async def test_a_bad_expression_is_refused_before_a_consumer_starts(client: WireClient) -> None:
    answer = await check(client, BAD)
    assert (answer.code, answer.remark) == (ResponseCode.SUBSCRIPTION_PARSE_FAILED, WHY_BAD)


@pytest.mark.row("FI-03")
async def test_a_good_expression_passes_where_sql_is_enabled(client: WireClient) -> None:
    assert (await check(client, "amount > 10")).code == ResponseCode.SUCCESS


async def test_another_language_is_refused(client: WireClient) -> None:
    await send(client, 1)
    for answer in (await check(client, "x", "XPATH"), await pull(client, "x", expressionType="XPATH")):
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR,
            "The broker does not support consumer to filter message by XPATH",
        )


@pytest.mark.row("FI-03")
async def test_unless_it_is_enabled_sql_is_refused_however_it_is_asked_for(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as cluster, WireClient(cluster.broker_addresses[0]) as client:
        await send(client, 15)
        await subscribe(client, "amount > 10")
        by_itself = await pull(client, "amount > 10")
        by_heartbeat = await pull_by_heartbeat(client)
        checked = await check(client, "amount > 10")
    for answer in (by_itself, by_heartbeat, checked):
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR,
            "The broker does not support consumer to filter message by SQL92",
        )


@pytest.mark.row("FI-05")
@pytest.mark.parametrize("code", [301, 302], ids=["a filter server", "a class that filters"])
async def test_classes_of_the_user_do_not_filter(client: WireClient, code: int) -> None:
    """As 4.9.8 answers: it has no filter servers any more."""
    answer = await client.ask(code, {})

    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == f" request type {code} not supported"


@pytest.mark.row("FI-05")
async def test_a_subscription_by_a_class_gets_everything(client: WireClient) -> None:
    await send(client, 5, 15)
    wanted = Subscription(topic="orders", sub_string="a.Filter", class_filter_mode=True, sub_version=1)
    part = ConsumerPart(group_name="readers", subscriptions=[wanted])
    await client.ask(
        RequestCode.HEART_BEAT, None, encode_heartbeat(Heartbeat(client_id="c1", consumers=[part]))
    )

    fields = pull_fields("orders") | {"sysFlag": 0, "subscription": "", "subVersion": 1}

    assert bodies(await client.ask(PULL, fields)) == [b"5", b"15"]


# Heartbeats ------------------------------------------------------------------------------------------------


@pytest.mark.row("FI-02")
async def test_a_group_pulls_by_the_expression_of_its_heartbeat(client: WireClient) -> None:
    await send(client, 5, 15)
    await subscribe(client, "amount > 10")
    assert bodies(await pull_by_heartbeat(client)) == [b"15"]


async def test_pulls_that_went_by_tags_are_filtered_once_the_group_subscribes_by_sql(
    client: WireClient,
) -> None:
    await send(client, 5, 15)
    body = heartbeat_body("c1", "readers", {"orders": "*"})
    await client.ask(RequestCode.HEART_BEAT, None, body)
    for _ in range(3):
        assert bodies(await pull_by_heartbeat(client)) == [b"5", b"15"]

    await subscribe(client, "amount > 10", version=2)

    for _ in range(3):
        assert bodies(await pull_by_heartbeat(client)) == [b"15"]


async def test_a_newer_expression_of_the_group_takes_over(client: WireClient) -> None:
    await send(client, 5, 15)
    await subscribe(client, "amount > 10", version=1)
    await subscribe(client, "amount < 10", version=2)
    await subscribe(client, "amount = 1", version=1)
    assert bodies(await pull_by_heartbeat(client, version=2)) == [b"5"]


async def test_a_bad_expression_of_a_heartbeat_is_told_to_the_pull(client: WireClient) -> None:
    await send(client, 5)
    await subscribe(client, "amount > 10", version=1)
    await subscribe(client, BAD, version=2)
    answer = await pull_by_heartbeat(client, version=2)
    assert (answer.code, answer.remark) == (
        ResponseCode.FILTER_DATA_NOT_EXIST,
        f"The broker's consumer filter data is not exist!Your expression may be wrong! {WHY_BAD}",
    )


def filter_file(folder: Path) -> dict[str, dict[str, object]]:
    """Return the filters by topic and group; none while the file is being replaced."""
    topics = {}
    for path in folder.rglob("consumerFilter.json"):
        with contextlib.suppress(FileNotFoundError):
            topics = json.loads(path.read_text())["filterDataByTopic"]
    return {topic: table["groupFilterData"] for topic, table in topics.items()}


async def test_filters_are_kept_in_rocketmqs_file_for_a_day_after_the_group_left(
    tmp_path: Path, clock: ManualClock
) -> None:
    settings = {"data_dir": tmp_path, "clock": clock, "enable_property_filter": True}
    async with Cluster(**settings) as cluster, WireClient(cluster.broker_addresses[0]) as client:  # type: ignore[arg-type]
        await subscribe(client, "amount > 10", version=7)
    kept = filter_file(tmp_path)["orders"]["readers"]
    assert isinstance(kept, dict)
    assert {name: kept[name] for name in ("expression", "expressionType", "clientVersion")} == {
        "expression": "amount > 10",
        "expressionType": "SQL92",
        "clientVersion": 7,
    }

    clock.advance(23 * 3_600_000)
    async with Cluster(**settings) as cluster, WireClient(cluster.broker_addresses[0]) as client:  # type: ignore[arg-type]
        await subscribe(client, "x = 1", topic="others")
        await aeventually(lambda: filter_file(tmp_path).keys() == {"orders", "others"})
        clock.advance(24 * 3_600_000)
        # Whoever was silent for a day has no connection any more.
        async with WireClient(cluster.broker_addresses[0]) as later:
            await subscribe(later, "x = 2", version=2, topic="others")
            await aeventually(lambda: filter_file(tmp_path).keys() == {"others"})


async def test_what_comes_back_to_a_group_is_filtered_if_that_is_wanted(
    tmp_path: Path, clock: ManualClock
) -> None:
    settings = {"enable_property_filter": True, "filter_support_retry": True}
    retry = "%RETRY%readers"
    async with (
        Cluster(data_dir=tmp_path, clock=clock, **settings) as cluster,  # type: ignore[arg-type]
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        await subscribe(client, "amount > 10")
        await send(client, 5, 15, topic=retry, RETRY_TOPIC="orders")
        await send(client, 6, topic=retry, RETRY_TOPIC="others")
        assert bodies(await client.ask(PULL, pull_fields(retry))) == [b"15", b"6"]


# Waiting ---------------------------------------------------------------------------------------------------


async def test_a_held_pull_is_woken_by_a_message_that_matches_and_by_no_other(
    cluster: Cluster, client: WireClient
) -> None:
    await send(client, 1)
    async with WireClient(cluster.broker_addresses[0]) as waiting:
        held = await hold(
            waiting, held_pull_fields("orders", subscription="amount > 10", expressionType="SQL92")
        )
        await send(client, 2, 3)
        assert not held.done()
        await send(client, 20)
        answer = await held
    assert (bodies(answer), next_offset(answer)) == ([b"20"], 4)


async def test_a_group_that_waits_by_its_heartbeat_is_woken_so_too(
    cluster: Cluster, client: WireClient
) -> None:
    await send(client, 1)
    async with WireClient(cluster.broker_addresses[0]) as waiting:
        await subscribe(waiting, "amount > 10")
        flags = {"sysFlag": int(PullFlag.SUSPEND)}
        held = await hold(waiting, held_pull_fields("orders") | BY_HEARTBEAT | flags)
        await send(client, 2, 20)
        assert bodies(await held) == [b"20"]
