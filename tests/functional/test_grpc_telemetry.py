"""Telemetry, heartbeats and farewells: what clients are told, and how long the broker knows them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from grpc_sdk import (
    Sdk,
    SdkStream,
    consumer_settings,
    message,
    producer_settings,
    put_topic,
    resource,
    sdk_of,
)

from pyromq.codes import Language
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.retry_policy import (
    CustomizedRetryPolicy,
    ExponentialRetryPolicy,
    GroupRetryPolicy,
    RetryPolicyType,
)
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode
from pyromq.wire.grpc.grpc_times import duration_of, ms_of

S = 1_000
DEFAULT_POLICY_S = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(has_grpc=True, channel_expired_timeout=120_000) as cluster:
        yield cluster


@pytest.fixture
async def sdk(cluster: Cluster) -> AsyncIterator[Sdk]:
    async with sdk_of(cluster) as sdk:
        yield sdk


async def told(sdk: Sdk, settings: pb.Settings) -> pb.Settings:
    """Return the settings that a client is told that sends some."""
    command = await sdk.telemetry().settings(settings)
    assert command.HasField("status")
    assert (command.status.code, command.status.message) == (GrpcCode.OK, "OK")
    assert command.WhichOneof("command") == "settings"
    return command.settings


def put_group(cluster: Cluster, name: str, **fields: Any) -> None:
    for broker in cluster.brokers.values():
        broker.groups.table.put(SubscriptionGroupConfig(group_name=name, **fields))


@pytest.mark.row("GR-06")
async def test_a_producer_is_told_what_it_needs(sdk: Sdk) -> None:
    access = pb.Endpoints(scheme=1, addresses=[pb.Address(host="127.0.0.1", port=8081)])
    topics = [pb.Resource(resource_namespace="ns", name="A"), resource("B")]
    said = producer_settings(access_point=access, request_timeout=duration_of(4 * S))
    said.publishing.topics.extend(topics)
    settings = await told(sdk, said)
    assert (settings.client_type, settings.access_point, settings.user_agent) == (1, access, said.user_agent)
    assert ms_of(settings.request_timeout) == 4 * S
    assert list(settings.publishing.topics) == topics
    assert (settings.publishing.max_body_size, settings.publishing.validate_message_type) == (4194304, True)
    policy = settings.backoff_policy
    assert policy.max_attempts == 3
    assert policy.WhichOneof("strategy") == "exponential_backoff"
    backoff = policy.exponential_backoff
    assert (ms_of(backoff.initial), ms_of(backoff.max), backoff.multiplier) == (10, 1000, 2)
    assert settings.HasField("metric")
    assert not settings.metric.on


@pytest.mark.row("GR-06")
@pytest.mark.parametrize("client_type", [2, 3])
async def test_a_consumer_is_told_what_it_needs(sdk: Sdk, client_type: int) -> None:
    said = consumer_settings("readers", {"A": "x || y", "B": "*"}, client_type=client_type)
    said.subscription.long_polling_timeout.CopyFrom(duration_of(7 * S))
    settings = await told(sdk, said)
    assert settings.client_type == client_type
    subscription = settings.subscription
    assert subscription.group.name == "readers"
    assert list(subscription.subscriptions) == list(said.subscription.subscriptions)
    assert (subscription.fifo, subscription.receive_batch_size) == (False, 32)
    assert subscription.HasField("fifo")
    assert ms_of(subscription.long_polling_timeout) == 20 * S
    assert settings.backoff_policy.max_attempts == 17
    delays = settings.backoff_policy.customized_backoff.next
    assert [ms_of(delay) for delay in delays] == [each * S for each in DEFAULT_POLICY_S]
    assert settings.HasField("metric")


@pytest.mark.row("GR-07")
async def test_a_group_decides_how_its_members_consume(cluster: Cluster, sdk: Sdk) -> None:
    put_group(cluster, "in-order", consume_message_orderly=True, retry_max_times=3)
    listed = GroupRetryPolicy(customized_retry_policy=CustomizedRetryPolicy(next=(2 * S, 4 * S)))
    put_group(cluster, "listed", group_retry_policy=listed)
    multiples = GroupRetryPolicy(
        type=RetryPolicyType.EXPONENTIAL,
        exponential_retry_policy=ExponentialRetryPolicy(initial=3 * S, max=60 * S, multiplier=4),
    )
    put_group(cluster, "multiples", group_retry_policy=multiples)
    settings = await told(sdk, consumer_settings("in-order"))
    assert settings.subscription.fifo
    assert settings.backoff_policy.max_attempts == 4
    policy = (await told(sdk, consumer_settings("listed"))).backoff_policy
    assert [ms_of(delay) for delay in policy.customized_backoff.next] == [2 * S, 4 * S]
    backoff = (await told(sdk, consumer_settings("multiples"))).backoff_policy.exponential_backoff
    assert (ms_of(backoff.initial), ms_of(backoff.max), backoff.multiplier) == (3 * S, 60 * S, 4)


@pytest.mark.row("GR-07")
async def test_node_is_told_multiples_for_it_knows_no_lists(cluster: Cluster) -> None:
    async with sdk_of(cluster, x_mq_language="HTTP") as node:
        policy = (await told(node, consumer_settings("readers"))).backoff_policy
    assert policy.WhichOneof("strategy") == "exponential_backoff"
    backoff = policy.exponential_backoff
    assert (ms_of(backoff.initial), ms_of(backoff.max), backoff.multiplier) == (S, 7200 * S, 2)


async def test_node_is_told_its_settings_once_more(cluster: Cluster) -> None:
    async with sdk_of(cluster, x_mq_language="HTTP") as node:
        stream = node.telemetry()
        first = await stream.settings(producer_settings("A", "B"))
        assert await stream.next() == first


async def test_members_are_told_when_their_group_changes(cluster: Cluster, sdk: Sdk) -> None:
    put_group(cluster, "readers")
    stream = sdk.telemetry()
    first = await stream.settings(consumer_settings("readers"))
    assert not first.settings.subscription.fifo
    put_group(cluster, "others", retry_max_times=1)
    put_group(cluster, "readers", consume_message_orderly=True, retry_max_times=2)
    second = await stream.next()
    assert second.settings.subscription.fifo
    assert second.settings.backoff_policy.max_attempts == 3


def bad_settings() -> dict[str, pb.Settings]:
    sql = consumer_settings("readers")
    sql.subscription.subscriptions.add(
        topic=resource("T"), expression=pb.FilterExpression(type=2, expression="a >")
    )
    properties = producer_settings("T")
    properties.client_properties["1"] = "x"
    return {
        "nothing": pb.Settings(client_type=1),
        "topic": producer_settings("a.b"),
        "system topic": producer_settings("TBW102"),
        "group": consumer_settings("a b"),
        "no group": consumer_settings(""),
        "system group": consumer_settings("CID_RMQ_SYS_x"),
        "filter": consumer_settings("readers", {"T": "||"}),
        "consumer's topic": consumer_settings("readers", {"a.b": "*"}),
        "SQL": sql,
        "pull consumer": consumer_settings("readers", client_type=4),
        "producer that subscribes": consumer_settings("readers", client_type=1),
        "client properties": properties,
        "too much": producer_settings(*[f"{'t' * 120}-{number}" for number in range(3000)]),
    }


@pytest.mark.row("GR-08")
@pytest.mark.parametrize("name", bad_settings())
async def test_settings_that_cannot_be_end_the_stream(sdk: Sdk, name: str) -> None:
    stream = sdk.telemetry()
    await stream.say(pb.TelemetryCommand(settings=bad_settings()[name]))
    assert await stream.code() == "INVALID_ARGUMENT"


@pytest.mark.row("GR-35")
async def test_a_group_that_nobody_created_is_there_for_its_members(cluster: Cluster, sdk: Sdk) -> None:
    settings = await told(sdk, consumer_settings("fresh"))
    assert settings.backoff_policy.max_attempts == 17
    [broker] = cluster.brokers.values()
    assert "fresh" in broker.groups.table.configs


@pytest.mark.row("GR-35")
async def test_where_groups_are_created_by_operators_an_unknown_one_is_refused() -> None:
    async with (
        Cluster(has_grpc=True, auto_create_subscription_group=False) as cluster,
        sdk_of(cluster) as sdk,
    ):
        stream = sdk.telemetry()
        await stream.say(pb.TelemetryCommand(settings=consumer_settings("fresh")))
        assert await stream.code() == "INVALID_ARGUMENT"
        request = pb.HeartbeatRequest(client_type=3, group=resource("fresh"))
        response = await sdk.call("Heartbeat", request)
        assert response.status.code == GrpcCode.CONSUMER_GROUP_NOT_FOUND


@pytest.mark.row("GR-02")
async def test_a_language_that_is_not_known_is_no_error(cluster: Cluster) -> None:
    for headers in ({"x_mq_language": "COBOL"}, {}):
        async with Sdk(cluster.grpc_addresses[0], f"of-{len(headers)}", **headers) as sdk:
            if not headers:
                del sdk.headers["x-mq-language"]
            await told(sdk, producer_settings("T"))
    [broker] = cluster.brokers.values()
    languages = {client.language for client in broker.groups.producers.groups["T"].values()}
    assert languages == {Language.OTHER}


@pytest.mark.row("GR-02")
async def test_telemetry_without_a_client_id_is_told_so(cluster: Cluster) -> None:
    async with sdk_of(cluster, None) as nobody:
        stream = nobody.telemetry()
        command = await stream.settings(producer_settings("T"))
        assert command.status.code == GrpcCode.CLIENT_ID_REQUIRED
        assert command.WhichOneof("command") is None
        assert await stream.code() == "OK"


async def test_a_consumer_is_a_member_of_its_group(cluster: Cluster, sdk: Sdk) -> None:
    await told(sdk, consumer_settings("readers", {"Orders": "a || b"}, client_type=2))
    [broker] = cluster.brokers.values()
    group = broker.groups.consumers.get("readers")
    assert group is not None
    assert (group.consume_type, group.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert group.client_ids == ["client"]
    assert group.subscriptions["Orders"].sub_string == "a || b"
    assert sorted(group.subscriptions["Orders"].tags) == ["a", "b"]


async def heartbeat(sdk: Sdk, client_type: int, group: str = "") -> int:
    request = pb.HeartbeatRequest(client_type=client_type)
    if group:
        request.group.name = group
    return int((await sdk.call("Heartbeat", request)).status.code)


@pytest.mark.row("GR-09")
async def test_a_client_whose_settings_never_came_is_served(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Orders")
    assert await heartbeat(sdk, 2, "readers") == GrpcCode.OK
    [broker] = cluster.brokers.values()
    group = broker.groups.consumers.get("readers")
    assert group is not None
    assert group.client_ids == ["client"]
    async with sdk_of(cluster, "sender") as sender:
        assert await heartbeat(sender, 1) == GrpcCode.OK
        assert (await sender.send(message("Orders"))).status.code == GrpcCode.OK


@pytest.mark.parametrize(
    ("client_type", "group", "code"),
    [
        (0, "readers", GrpcCode.UNRECOGNIZED_CLIENT_TYPE),
        (4, "readers", GrpcCode.UNRECOGNIZED_CLIENT_TYPE),
        (6, "readers", GrpcCode.UNRECOGNIZED_CLIENT_TYPE),
        (3, "", GrpcCode.ILLEGAL_CONSUMER_GROUP),
        (3, "a b", GrpcCode.ILLEGAL_CONSUMER_GROUP),
    ],
)
async def test_a_heartbeat_that_cannot_be_has_its_code(
    sdk: Sdk, client_type: int, group: str, code: int
) -> None:
    assert await heartbeat(sdk, client_type, group) == code


async def test_a_heartbeat_keeps_what_the_settings_said(cluster: Cluster, sdk: Sdk) -> None:
    await told(sdk, consumer_settings("readers", {"Orders": "a"}))
    assert await heartbeat(sdk, 3, "readers") == GrpcCode.OK
    [broker] = cluster.brokers.values()
    group = broker.groups.consumers.get("readers")
    assert group is not None
    assert group.subscriptions["Orders"].sub_string == "a"
    # A member whose settings never came has those of its group.
    async with sdk_of(cluster, "second") as second:
        assert await heartbeat(second, 3, "readers") == GrpcCode.OK
    assert group.subscriptions["Orders"].sub_string == "a"
    assert sorted(group.client_ids) == ["client", "second"]
    assert broker.groups.conflicts.conflict("readers") is None


async def test_a_member_that_was_not_heard_yet_conflicts_with_nobody(cluster: Cluster, sdk: Sdk) -> None:
    # As after a restart: heartbeats come before settings do.
    assert await heartbeat(sdk, 3, "readers") == GrpcCode.OK
    [broker] = cluster.brokers.values()
    async with sdk_of(cluster, "second") as second:
        await told(second, consumer_settings("readers", {"Orders": "a"}))
        assert await heartbeat(sdk, 3, "readers") == GrpcCode.OK
        group = broker.groups.consumers.get("readers")
        assert group is not None
        assert group.subscriptions["Orders"].sub_string == "a"
        await told(second, consumer_settings("readers", {"Orders": "b", "Paid": "*"}))
        assert await heartbeat(sdk, 3, "readers") == GrpcCode.OK
        assert set(group.subscriptions) == {"Orders", "Paid"}
    assert not broker.groups.conflicts._differing


@pytest.mark.row("GR-32")
async def test_a_farewell_ends_a_client_at_once(cluster: Cluster, sdk: Sdk) -> None:
    stream = sdk.telemetry()
    await stream.settings(consumer_settings("readers", {"Orders": "*"}))
    [broker] = cluster.brokers.values()
    assert broker.groups.consumers.get("readers") is not None
    request = pb.NotifyClientTerminationRequest(group=resource("readers"))
    assert (await sdk.call("NotifyClientTermination", request)).status.code == GrpcCode.OK
    assert broker.groups.consumers.get("readers") is None
    # It is not known any more, and that is no error.
    assert (await sdk.call("NotifyClientTermination", request)).status.code == GrpcCode.OK


async def test_a_consumer_that_names_no_group_is_told_so_and_gone_all_the_same(
    cluster: Cluster, sdk: Sdk
) -> None:
    await told(sdk, consumer_settings("readers"))
    request = pb.NotifyClientTerminationRequest()
    response = await sdk.call("NotifyClientTermination", request)
    assert response.status.code == GrpcCode.ILLEGAL_CONSUMER_GROUP
    [broker] = cluster.brokers.values()
    assert broker.groups.consumers.get("readers") is None


async def test_a_stream_that_ends_is_no_end_of_its_client(cluster: Cluster, sdk: Sdk) -> None:
    stream = sdk.telemetry()
    await stream.settings(consumer_settings("readers"))
    await stream.half_close()
    assert await stream.code() == "OK"
    [broker] = cluster.brokers.values()
    group = broker.groups.consumers.get("readers")
    assert group is not None
    [member] = group.members
    await aeventually(lambda: member.closed)
    assert broker.groups.consumers.get("readers") is group


async def test_the_newest_stream_is_where_commands_go(cluster: Cluster, sdk: Sdk) -> None:
    put_group(cluster, "readers")
    first, second = sdk.telemetry(), sdk.telemetry()
    await first.settings(consumer_settings("readers"))
    await second.settings(consumer_settings("readers"))
    put_group(cluster, "readers", consume_message_orderly=True)
    assert (await second.next()).settings.subscription.fifo
    # The older one stays open, and is silent.
    assert (await first.settings(consumer_settings("readers"))).settings.subscription.fifo


async def test_an_empty_command_is_not_answered(sdk: Sdk) -> None:
    stream = sdk.telemetry()
    await stream.say(pb.TelemetryCommand())
    assert (await stream.settings(producer_settings("T"))).WhichOneof("command") == "settings"


async def test_a_client_that_is_silent_too_long_is_forgotten() -> None:
    clock = ManualClock()
    async with Cluster(has_grpc=True, clock=clock, server_channel_max_idle_time_seconds=100_000) as cluster:
        [broker] = cluster.brokers.values()
        async with sdk_of(cluster) as sdk:
            stream: SdkStream = sdk.telemetry()
            await stream.settings(consumer_settings("readers"))
            clock.advance(115_000)
            await heartbeat(sdk, 3, "readers")
            clock.advance(115_000)
            assert broker.groups.consumers.get("readers") is not None
            clock.advance(10_000)
            await aeventually(lambda: broker.groups.consumers.get("readers") is None)
