"""Routes and assignments, as gRPC clients ask a broker for them."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from grpc_sdk import Sdk, endpoints, put_topic, resource, sdk_of

from pyromq.codes import Perm
from pyromq.testing.cluster import Cluster
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode

R, W, RW, NONE = 2, 3, 4, 1


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(has_grpc=True) as cluster:
        yield cluster


@pytest.fixture
async def sdk(cluster: Cluster) -> AsyncIterator[Sdk]:
    async with sdk_of(cluster) as sdk:
        yield sdk


async def route(sdk: Sdk, topic: str, access: pb.Endpoints | None = None) -> pb.QueryRouteResponse:
    request = pb.QueryRouteRequest(topic=resource(topic), endpoints=access or endpoints())
    response = await sdk.call("QueryRoute", request)
    assert isinstance(response, pb.QueryRouteResponse)
    return response


async def assignment(sdk: Sdk, topic: str, group: str) -> pb.QueryAssignmentResponse:
    request = pb.QueryAssignmentRequest(topic=resource(topic), group=resource(group), endpoints=endpoints())
    response = await sdk.call("QueryAssignment", request)
    assert isinstance(response, pb.QueryAssignmentResponse)
    return response


@pytest.mark.row("GR-11")
@pytest.mark.parametrize(
    ("reads", "writes", "perm", "permissions"),
    [
        (2, 2, Perm.READ | Perm.WRITE, [RW, RW]),
        (3, 1, Perm.READ | Perm.WRITE, [R, R, RW]),
        (1, 3, Perm.READ | Perm.WRITE, [W, W, RW]),
        (2, 4, Perm.READ, [R, R]),
        (2, 4, Perm.WRITE, [W, W, W, W]),
        (2, 4, 0, [NONE] * 4),
        (0, 0, 0, [NONE]),
    ],
)
async def test_each_queue_has_its_permission(
    cluster: Cluster, sdk: Sdk, reads: int, writes: int, perm: int, permissions: list[int]
) -> None:
    put_topic(cluster, "Orders", read_queue_nums=reads, write_queue_nums=writes, perm=int(perm))
    first = await route(sdk, "Orders")
    assert (first.status.code, first.status.message) == (GrpcCode.OK, "OK")
    assert [queue.permission for queue in first.message_queues] == permissions
    assert [queue.id for queue in first.message_queues] == list(range(len(permissions)))
    assert {queue.topic.name for queue in first.message_queues} == {"Orders"}
    assert {(queue.broker.name, queue.broker.id) for queue in first.message_queues} == {("broker-a", 0)}
    assert await route(sdk, "Orders") == first


@pytest.mark.row("GR-11")
@pytest.mark.parametrize(
    ("kind", "accepted"),
    [
        (None, [1]),
        ("NORMAL", [1]),
        ("FIFO", [2]),
        ("DELAY", [3]),
        ("TRANSACTION", [4]),
        ("MIXED", [1, 2, 3, 4]),
    ],
)
async def test_a_route_says_what_its_topic_takes(
    cluster: Cluster, sdk: Sdk, kind: str | None, accepted: list[int]
) -> None:
    put_topic(cluster, "Orders", kind=kind)
    for queue in (await route(sdk, "Orders")).message_queues:
        assert list(queue.accept_message_types) == accepted


@pytest.mark.row("GR-12")
async def test_a_topic_that_is_not_there_is_told_so(sdk: Sdk) -> None:
    for topic in ("Nowhere", "%RETRY%nobody", "%DLQ%nobody"):
        assert (await route(sdk, topic)).status.code == GrpcCode.TOPIC_NOT_FOUND
    assert (await assignment(sdk, "Nowhere", "readers")).status.code == GrpcCode.TOPIC_NOT_FOUND


@pytest.mark.row("GR-12")
@pytest.mark.parametrize(
    "topic", ["", " ", "a.b", "a/b", "t" * 128, "TBW102", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX"]
)
async def test_a_name_that_no_topic_has_is_refused(sdk: Sdk, topic: str) -> None:
    assert (await route(sdk, topic)).status.code == GrpcCode.ILLEGAL_TOPIC
    assert (await assignment(sdk, topic, "readers")).status.code == GrpcCode.ILLEGAL_TOPIC


@pytest.mark.parametrize(
    "access",
    [
        pb.Endpoints(),
        pb.Endpoints(scheme=1),
        pb.Endpoints(addresses=[pb.Address(host="h", port=1)]),
        pb.Endpoints(scheme=3, addresses=[pb.Address(host="a", port=1), pb.Address(host="b", port=1)]),
    ],
)
async def test_a_route_is_for_somebody_who_connects(cluster: Cluster, sdk: Sdk, access: pb.Endpoints) -> None:
    put_topic(cluster, "Orders")
    response = await sdk.call("QueryRoute", pb.QueryRouteRequest(topic=resource("Orders"), endpoints=access))
    assert response.status.code == GrpcCode.ILLEGAL_ACCESS_POINT


async def test_a_route_creates_a_topic_where_the_settings_want_it() -> None:
    async with Cluster(has_grpc=True, grpc_auto_create_topic=True) as cluster, sdk_of(cluster) as sdk:
        response = await route(sdk, "Fresh")
        assert response.status.code == GrpcCode.OK
        assert [queue.permission for queue in response.message_queues] == [RW] * 4
        assert (await route(sdk, "%RETRY%nobody")).status.code == GrpcCode.TOPIC_NOT_FOUND


@pytest.mark.row("GR-13")
async def test_a_single_broker_is_where_its_client_came_by(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Orders")
    by_name = pb.Endpoints(scheme=3, addresses=[pb.Address(host="gateway.example", port=443)])
    for queue in (await route(sdk, "Orders", by_name)).message_queues:
        assert queue.broker.endpoints == by_name


@pytest.mark.row("GR-13")
async def test_each_of_several_brokers_is_where_it_says() -> None:
    async with Cluster(brokers=2, has_grpc=True) as cluster, sdk_of(cluster) as sdk:
        put_topic(cluster, "Orders", queues=2)

        async def brokers() -> dict[str, str]:
            found = {}
            for queue in (await route(sdk, "Orders")).message_queues:
                [address] = queue.broker.endpoints.addresses
                found[queue.broker.name] = f"{address.host}:{address.port}"
            return found

        wanted = dict(zip(("broker-a", "broker-b"), cluster.grpc_addresses, strict=True))

        async def are_told() -> bool:
            return await brokers() == wanted

        await aeventually(are_told)
        for address in wanted.values():
            async with Sdk(address) as other:
                assert (await route(other, "Orders")).status.code == GrpcCode.OK


@pytest.mark.row("GR-11")
async def test_a_broker_knows_what_topics_of_others_take() -> None:
    async with Cluster(brokers=2, has_grpc=True) as cluster, sdk_of(cluster) as sdk:
        other = cluster.brokers["broker-b"]
        config = TopicConfig(
            topic_name="Elsewhere", read_queue_nums=1, write_queue_nums=1, attributes={"message.type": "FIFO"}
        )
        other.topics.put(config)

        async def types() -> list[int]:
            queues = (await route(sdk, "Elsewhere")).message_queues
            return [kind for queue in queues for kind in queue.accept_message_types]

        assert await aeventually(types) == [2]


async def test_an_address_that_is_set_is_told() -> None:
    async with Cluster(has_grpc=True, grpc_advertise="mq.example:443") as cluster, sdk_of(cluster) as sdk:
        put_topic(cluster, "Orders", queues=1)
        [queue] = (await route(sdk, "Orders")).message_queues
        expected = pb.Endpoints(scheme=3, addresses=[pb.Address(host="mq.example", port=443)])
        assert queue.broker.endpoints == expected


@pytest.mark.row("GR-14")
async def test_members_of_a_group_share_all_queues(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Orders", queues=4)
    async with sdk_of(cluster, "another") as other:
        first, second = await asyncio.gather(
            assignment(sdk, "Orders", "readers"), assignment(other, "Orders", "readers")
        )
    assert first == second
    assert first.status.code == GrpcCode.OK
    [only] = first.assignments
    queue = only.message_queue
    assert (queue.id, queue.permission, queue.broker.name, queue.topic.name) == (-1, RW, "broker-a", "Orders")
    assert queue.broker.endpoints.addresses


@pytest.mark.row("GR-14")
async def test_members_of_a_fifo_group_have_each_queue(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Orders", read_queue_nums=3, write_queue_nums=1, perm=int(Perm.READ))
    [broker] = cluster.brokers.values()
    broker.groups.table.put(SubscriptionGroupConfig(group_name="in-order", consume_message_orderly=True))
    assigned = (await assignment(sdk, "Orders", "in-order")).assignments
    assert [(one.message_queue.id, one.message_queue.permission) for one in assigned] == [
        (0, R),
        (1, R),
        (2, R),
    ]


@pytest.mark.row("GR-14")
async def test_a_topic_that_nobody_may_read_is_assigned_to_nobody(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Shut", perm=int(Perm.WRITE))
    response = await assignment(sdk, "Shut", "readers")
    assert response.status.code == GrpcCode.FORBIDDEN
    assert not response.assignments


@pytest.mark.parametrize("group", ["", " ", "g.h", "g" * 121, "CID_RMQ_SYS_x"])
async def test_a_name_that_no_group_has_is_refused(cluster: Cluster, sdk: Sdk, group: str) -> None:
    put_topic(cluster, "Orders")
    assert (await assignment(sdk, "Orders", group)).status.code == GrpcCode.ILLEGAL_CONSUMER_GROUP
