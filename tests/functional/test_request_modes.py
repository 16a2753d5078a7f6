"""Members that ask the broker for their share of queues, and operators who say how groups consume."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from pyromq.aio import Admin
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.choices import MessageRequestMode
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Heartbeat, encode_heartbeat
from pyromq.wire.bodies.pop_bodies import (
    AssignmentQuestion,
    decode_assignments,
    encode_assignment_question,
)
from pyromq.wire.bodies.request_mode_bodies import (
    RequestModeSetting,
    decode_request_modes,
    encode_request_mode,
)
from pyromq.wire.command import Command

TOPIC, GROUP, QUEUES = "orders", "readers", 4
PULL, POP = MessageRequestMode.PULL, MessageRequestMode.POP


@asynccontextmanager
async def running(folder: Path, clock: ManualClock, brokers: int = 1) -> AsyncIterator[Cluster]:
    async with Cluster(brokers, data_dir=folder, clock=clock) as cluster:
        async with Admin(cluster.namesrv_address) as admin:
            await admin.create_topic(TOPIC, QUEUES)
        yield cluster


@asynccontextmanager
async def members(cluster: Cluster, names: Sequence[str], group: str = GROUP) -> AsyncIterator[WireClient]:
    """Let members join a group at each broker, and yield a connection of the first one."""
    async with AsyncExitStack() as stack:
        clients = []
        for name in names:
            client = await stack.enter_async_context(WireClient(cluster.broker_addresses[0]))
            beat = Heartbeat(client_id=name, consumers=[ConsumerPart(group_name=group)])
            assert (await client.ask(RequestCode.HEART_BEAT, None, encode_heartbeat(beat))).code == 0
            clients.append(client)
        yield clients[0]


async def set_mode(
    client: WireClient, mode: MessageRequestMode, shared: int = 0, topic: str = TOPIC
) -> Command:
    setting = RequestModeSetting(topic=topic, consumer_group=GROUP, mode=mode, pop_share_queue_num=shared)
    return await client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, None, encode_request_mode(setting))


async def share(
    client: WireClient, name: str, topic: str = TOPIC, **more: str
) -> list[tuple[str, int]] | None:
    """Return how each queue that a member is given is to be read, and its id."""
    question = AssignmentQuestion(topic=topic, consumer_group=GROUP, client_id=name, **more)
    answer = await client.ask(RequestCode.QUERY_ASSIGNMENT, None, encode_assignment_question(question))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    given = decode_assignments(answer.body)
    return None if given is None else sorted((each.mode, each.queue.queue_id) for each in given)


@pytest.mark.row("PO-23")
@pytest.mark.parametrize(
    ("mode", "shared", "names", "expected"),
    [
        (PULL, 0, ["a"], {"a": [0, 1, 2, 3]}),
        (PULL, 0, ["a", "b", "c"], {"a": [0, 1], "b": [2], "c": [3]}),
        (PULL, 0, ["a", "b", "c", "d", "e"], {"a": [0], "d": [3], "e": []}),
        (POP, 0, ["a", "b", "c"], {"a": [-1], "b": [-1], "c": [-1]}),
        (POP, -1, ["a"], {"a": [-1]}),
        (POP, 2, ["a", "b", "c"], {"a": [-1]}),
        (POP, 1, ["a", "b", "c"], {"a": [0, 1, 2], "b": [2, 3], "c": [0, 1, 3]}),
        (POP, 2, ["a", "b", "c", "d"], {"a": [0, 1, 2], "d": [0, 1, 3]}),
        (POP, 1, ["a", "b", "c", "d", "e", "f"], {"a": [0], "d": [3], "e": [0], "f": [1]}),
    ],
)
async def test_members_get_their_share(
    tmp_path: Path,
    clock: ManualClock,
    mode: MessageRequestMode,
    shared: int,
    names: list[str],
    expected: dict[str, list[int]],
) -> None:
    async with running(tmp_path, clock) as cluster, members(cluster, names) as client:
        assert (await set_mode(client, mode, shared)).code == ResponseCode.SUCCESS

        for name, queues in expected.items():
            assert await share(client, name) == [(mode, queue_id) for queue_id in queues], name


@pytest.mark.row("PO-23")
async def test_queues_of_all_brokers_are_shared_out(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock, 2) as cluster, members(cluster, ["a", "b"]) as client:
        pulled = await share(client, "a")
        dealt = await share(client, "a", strategy_name="AVG_BY_CIRCLE")
        await set_mode(client, POP)
        popped = await share(client, "a")

    assert pulled == [("PULL", 0), ("PULL", 1), ("PULL", 2), ("PULL", 3)]
    assert dealt == [("PULL", 0), ("PULL", 0), ("PULL", 2), ("PULL", 2)]
    assert popped == [("POP", -1), ("POP", -1)]


@pytest.mark.row("PO-23")
async def test_a_retry_topic_is_pulled(tmp_path: Path, clock: ManualClock) -> None:
    retry = f"%RETRY%{GROUP}"
    async with running(tmp_path, clock) as cluster, members(cluster, ["a"]) as client:
        await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"defaultMessageRequestMode=POP")
        async with Admin(cluster.namesrv_address) as admin:
            await admin.create_topic(retry, 1)

        refused = await set_mode(client, POP, topic=retry)

        assert (refused.code, refused.remark) == (
            ResponseCode.NO_PERMISSION,
            "retry topic is not allowed to set mode",
        )
        assert await share(client, "a", retry) == [("PULL", 0)]
        assert await share(client, "a") == [("POP", -1)]


def is_on_disk(folder: Path) -> bool:
    return len(list(folder.rglob("messageRequestMode.json"))) == 1


@pytest.mark.row("PO-23")
async def test_modes_are_there_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock) as cluster, members(cluster, ["a"]) as client:
        await set_mode(client, POP)
    async with running(tmp_path, clock) as cluster, members(cluster, ["a"]) as client:
        assert await share(client, "a") == [("POP", -1)]
        table = await client.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        await set_mode(client, PULL)
        assert await share(client, "a") == [("PULL", queue_id) for queue_id in range(QUEUES)]

    assert decode_request_modes(table.body)[TOPIC][GROUP].mode is POP
    assert is_on_disk(tmp_path)


async def test_who_is_no_member_is_given_nothing(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock) as cluster, WireClient(cluster.broker_addresses[0]) as stranger:
        assert await share(stranger, "stranger") is None
        async with members(cluster, ["a"]):
            assert await share(stranger, "stranger") == []
            assert await share(stranger, "a", "nowhere") is None
            assert await share(stranger, "a", strategy_name="MINE") is None
            everything = await share(stranger, "a", message_model="BROADCASTING")

    assert everything == [("PULL", queue_id) for queue_id in range(QUEUES)]


async def test_without_load_balancing_each_member_gets_all(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock) as cluster, members(cluster, ["a", "b"]) as client:
        await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"serverLoadBalancerEnable=false")

        assert await share(client, "b") == [("PULL", queue_id) for queue_id in range(QUEUES)]


async def test_a_mode_needs_a_topic_and_a_group(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock) as cluster, WireClient(cluster.broker_addresses[0]) as client:
        unknown = await set_mode(client, POP, topic="nowhere")
        await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"autoCreateSubscriptionGroup=false")
        nobody = await set_mode(client, POP)
        nonsense = await client.ask(
            RequestCode.SET_MESSAGE_REQUEST_MODE, None, b'{"topic":"t","consumerGroup":"g","mode":"X"}'
        )

    assert (unknown.code, nobody.code) == (
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    )
    assert nonsense.code == ResponseCode.SYSTEM_ERROR
    assert "mode" in (nonsense.remark or "")


async def test_what_is_deleted_has_no_mode(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock) as cluster, WireClient(cluster.broker_addresses[0]) as client:
        await set_mode(client, POP)
        await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": GROUP})
        without_group = await client.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        await set_mode(client, POP)
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        without_topic = await client.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)

    assert decode_request_modes(without_group.body) == decode_request_modes(without_topic.body) == {}


async def test_many_may_ask_at_once(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock) as cluster, members(cluster, ["a", "b"]) as client:
        shares = await asyncio.gather(*(share(client, name) for name in "ab" * 50))

    assert shares == [[("PULL", 0), ("PULL", 1)], [("PULL", 2), ("PULL", 3)]] * 50
