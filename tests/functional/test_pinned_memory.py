"""What peers send does not stay in a broker's memory: bounded by bytes, and let go when they go."""

import asyncio
import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.broker.delivery import sql_filters as broker_filters
from pyromq.broker.delivery.arrivals import Arrivals, HeldPull
from pyromq.broker.delivery.pull_shortcut import FastPulls
from pyromq.broker.delivery.sql_filters import DEAD_CHARACTERS_MAX, FilterTable, tag_test
from pyromq.codes import PullFlag, RequestCode, ResponseCode
from pyromq.config.settings import BrokerSettings
from pyromq.filter.sql_filter import compile_sql
from pyromq.kernel import IS_COMPILED
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import heartbeat_body, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.text_cache import TextCache
from pyromq.wire.bodies.heartbeat_bodies import Subscription
from pyromq.wire.java_hash import java_hash, java_map_order

MIB = 1 << 20


@pytest.fixture
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


def pull_fields(offset: int = 0, *, tags: str = "*", version: int = 0) -> dict[str, str]:
    return {
        "consumerGroup": "readers",
        "topic": "orders",
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(int(PullFlag.SUBSCRIPTION | PullFlag.SUSPEND)),
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subscription": tags,
        "subVersion": str(version),
        "expressionType": "TAG",
    }


async def topic_of_one_message(client: WireClient) -> None:
    answer = await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders", queueId=0), b"x")
    assert answer.code == ResponseCode.SUCCESS


@pytest.mark.usefixtures("traced")
async def test_a_held_pull_keeps_nothing_but_what_it_needs(cluster: Cluster, client: WireClient) -> None:
    await topic_of_one_message(client)
    arrivals = cluster.brokers["broker-a"].delivery.arrivals
    refused = await client.ask(RequestCode.PULL_MESSAGE, pull_fields(1), bytes(8 * MIB))
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "at most 65536 bytes of body" in (refused.remark or "")
    body, junk = bytes(60 * 1024), "j" * MIB
    before, _ = tracemalloc.get_traced_memory()

    pulls = [
        asyncio.ensure_future(client.ask(RequestCode.PULL_MESSAGE, pull_fields(1) | {"junk": junk}, body))
        for _ in range(30)
    ]
    await aeventually(lambda: arrivals.held_count == 30)
    gc.collect()

    assert tracemalloc.get_traced_memory()[0] - before < 12 * MIB
    for pull in pulls:
        pull.cancel()


@pytest.mark.usefixtures("traced")
async def test_tags_that_pulls_bring_are_remembered_up_to_a_limit(
    cluster: Cluster, client: WireClient
) -> None:
    await topic_of_one_message(client)
    before, _ = tracemalloc.get_traced_memory()

    for number in range(100, 160):
        tags = " || ".join(f"tag{number}-{one}" * 40 for one in range(10, 70))
        answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields(0, tags=tags))
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    gc.collect()

    assert broker_filters._code_test.characters <= 512 * 1024
    assert tracemalloc.get_traced_memory()[0] - before < 1.2 * MIB


async def test_what_is_remembered_of_subscriptions_goes_with_the_last_member(
    cluster: Cluster, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered = TextCache(broker_filters._code_test._function, 100_000)
    monkeypatch.setattr(broker_filters, "_code_test", remembered)
    await topic_of_one_message(client)
    tags = " || ".join(f"mine-{one}" for one in range(1_000))
    async with WireClient(cluster.broker_addresses[0]) as member:
        body = heartbeat_body("c", "readers", {"orders": tags})
        assert (await member.ask(RequestCode.HEART_BEAT, None, body)).code == ResponseCode.SUCCESS
        fields = pull_fields() | {"sysFlag": "0"}
        await member.ask(RequestCode.PULL_MESSAGE, fields)
        assert remembered.characters == len(tags)

    await aeventually(lambda: remembered.characters == 0)


@pytest.mark.skipif(not IS_COMPILED, reason="only the kernel learns pulls")
async def test_pulls_that_the_kernel_learnt_have_a_limit(
    cluster: Cluster, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyromq.broker.delivery.pull_shortcut.LEARNT_BYTES_MAX", 10_000)
    await topic_of_one_message(client)
    store = cluster.brokers["broker-a"].store
    (fast_pulls,) = [
        each for each in gc.get_objects() if isinstance(each, FastPulls) and each._store is store
    ]

    for version in range(200):
        answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields(version=version))
        assert answer.code == ResponseCode.SUCCESS
        assert fast_pulls._pulls.plan_count < 40
    await client.ask(RequestCode.PULL_MESSAGE, pull_fields(tags=" || ".join(map(str, range(2_000)))))
    assert fast_pulls._learnt_bytes <= 10_000


def test_pulls_are_not_held_when_their_subscriptions_take_too_much() -> None:
    arrivals = Arrivals(lambda _topic, _queue_id: 0, ManualClock())
    pulls = [HeldPull(0, 10, None, lambda: None, None, MIB) for _ in range(32)]
    for pull in pulls:
        assert arrivals.has_room(100)
        arrivals.hold("orders", 0, pull)

    assert not arrivals.has_room(100)
    arrivals.drop("orders", 0, pulls[0])
    assert arrivals.has_room(100)
    assert not arrivals.has_room(31)


async def test_what_woken_pulls_held_is_free_again() -> None:
    arrivals = Arrivals(lambda _topic, _queue_id: 0, ManualClock())
    for _ in range(3):
        arrivals.hold("orders", 0, HeldPull(0, 10, None, lambda: None, None, 7))
    assert arrivals.held_characters == 21

    arrivals.wake_all()

    assert arrivals.held_characters == 0


# Caches --------------------------------------------------------------------------------------------------


def test_a_cache_is_bounded_by_the_size_of_its_texts() -> None:
    calls: list[str] = []

    def length(text: str) -> int:
        calls.append(text)
        return len(text)

    cache = TextCache(length, 100)
    texts = ["a" * 40, "b" * 40, "a" * 40, "c" * 20, "d" * 10]
    assert [cache(text) for text in texts] == [40, 40, 40, 20, 10]
    assert len(calls) == 4

    # b was asked for longest ago.
    cache("a" * 40)
    assert len(calls) == 4
    cache("b" * 40)
    assert len(calls) == 5
    assert cache.characters <= 100

    cache.discard("b" * 40)
    cache.discard("never there")
    before = cache.characters
    cache("e" * 51)
    assert cache.characters == before, "a text that would fill half of it is not kept"


def test_what_raises_is_not_remembered() -> None:
    cache = TextCache(int, 100)

    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            cache("x")
    assert cache.characters == 0


@pytest.mark.usefixtures("traced")
def test_filters_by_sql_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_sql, "_characters_max", 3_000)
    compile_sql("a = 1")
    before, _ = tracemalloc.get_traced_memory()

    for number in range(20):
        compile_sql(" OR ".join(f"a{one} = {number}" for one in range(50)))
    gc.collect()

    assert compile_sql.characters <= 3_000
    assert tracemalloc.get_traced_memory()[0] - before < MIB // 3


@pytest.mark.usefixtures("traced")
def test_hashes_of_long_texts_are_not_remembered() -> None:
    before, _ = tracemalloc.get_traced_memory()

    for number in range(100, 110):
        java_hash(f"{number}" * 3_000)
        java_map_order((f"{number}" * 3_000, "b"))
    gc.collect()

    assert tracemalloc.get_traced_memory()[0] - before < 40_000


def test_filters_that_nobody_wants_any_more_take_limited_room(tmp_path: Path) -> None:
    clock = ManualClock()
    table = FilterTable(tmp_path / "f.json", BrokerSettings(enable_property_filter=True), clock)
    text = "a = '" + "x" * 30_000 + "'"
    for number in range(200):
        clock.advance(1)
        subscription = Subscription(topic="t", sub_string=text, expression_type="SQL92", sub_version=1)
        table._filters[f"t{number}", "g"] = broker_filters.GroupFilter(
            topic=f"t{number}", consumer_group="g", expression=subscription.sub_string
        )

    table.group_left("g")

    kept = [each for each in table._filters.values() if each.dead_time]
    assert 100 < len(kept) < 200
    assert sum(len(each.expression) for each in kept) <= DEAD_CHARACTERS_MAX
    assert table.get("t199", "g") is not None


def test_a_test_for_tags_is_what_it_was() -> None:
    assert tag_test(None) is None
    assert tag_test("*") is None
    test = tag_test("a || b")
    assert test is not None
    assert [test(java_hash(tag)) for tag in "abc"] == [True, True, False]
