"""Topics of units: the flag that an operator gives, and that clients in unit mode give to new topics."""

from collections.abc import AsyncIterator

import pytest

from pyromq import ClientSettings, Message, TopicSysFlag
from pyromq.aio import Admin, Producer, PullConsumer, PushConsumer
from pyromq.codes import Perm, RequestCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.requests import send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Heartbeat, Subscription, encode_heartbeat
from pyromq.wire.bodies.list_bodies import decode_topic_list
from pyromq.wire.bodies.topic_bodies import TopicConfig, decode_topic_table
from pyromq.wire.message_id import parse_offset_message_id

UNIT, UNIT_SUB, NONE = TopicSysFlag.UNIT, TopicSysFlag.UNIT_SUB, TopicSysFlag(0)
IN_UNIT = ClientSettings(unit_mode=True)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(2) as cluster:
        yield cluster


async def config_of(address: str, topic: str) -> TopicConfig | None:
    """Return what a broker's table has of a topic."""
    async with WireClient(address) as client:
        answer = await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    return decode_topic_table(answer.body).topic_config_table.get(topic)


async def flags_of(cluster: Cluster, topic: str) -> set[int]:
    """Return a topic's flags in the tables of the brokers that have it."""
    found = [await config_of(address, topic) for address in cluster.broker_addresses]
    return {config.topic_sys_flag for config in found if config is not None}


@pytest.mark.row("UN-01")
async def test_an_operator_creates_topics_with_their_flag_and_name_servers_list_them(
    cluster: Cluster,
) -> None:
    async with Admin(cluster.namesrv_address) as admin, WireClient(cluster.namesrv_address) as client:
        for name, flag in {"none": NONE, "unit": UNIT, "sub": UNIT_SUB, "both": UNIT | UNIT_SUB}.items():
            await admin.create_topic(name, 2, sys_flag=flag, perm=Perm.READ)

        for address in cluster.broker_addresses:
            assert await config_of(address, "both") == TopicConfig(
                topic_name="both", read_queue_nums=2, write_queue_nums=2, perm=4, topic_sys_flag=3
            )
        listed = {
            code: set(decode_topic_list((await client.ask(code)).body).topic_list)
            for code in (
                RequestCode.GET_UNIT_TOPIC_LIST,
                RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
                RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
            )
        }
    assert list(listed.values()) == [{"unit", "both"}, {"sub", "both"}, {"sub"}]


@pytest.mark.row("UN-01")
async def test_an_operator_creates_an_ordered_topic(cluster: Cluster) -> None:
    async with Admin(cluster.namesrv_address) as admin:
        await admin.create_topic("orders", 2, is_ordered=True)
        assert await admin.order_conf("orders") == "broker-a:2;broker-b:2"
        await admin.create_topic("orders", 3, is_ordered=True, broker="broker-b")
        assert await admin.order_conf("orders") == "broker-a:2;broker-b:3"

        # A broker hears it when it registers next.
        await admin.create_topic("another")
        for address in cluster.broker_addresses:
            config = await config_of(address, "orders")
            assert config is not None
            assert config.order


@pytest.mark.row("UN-02", "PR-25")
async def test_a_producer_in_unit_mode_marks_the_topics_that_its_sends_create(cluster: Cluster) -> None:
    async with Producer("pg", cluster.namesrv_address, IN_UNIT) as producer:
        await producer.send(Message("of-a-unit", b"x"))
    async with Producer("other", cluster.namesrv_address) as producer:
        await producer.send(Message("of-none", b"x"))

    assert (await flags_of(cluster, "of-a-unit"), await flags_of(cluster, "of-none")) == ({UNIT}, {NONE})


@pytest.mark.row("UN-02", "PR-25")
@pytest.mark.parametrize("kind", [PushConsumer, PullConsumer])
async def test_a_consumer_in_unit_mode_marks_its_group_s_retry_topic(
    cluster: Cluster, kind: type[PushConsumer] | type[PullConsumer]
) -> None:
    async def listen(_message: object) -> bool:
        return True

    async with Admin(cluster.namesrv_address) as admin:
        await admin.create_topic("orders")
    for group, settings, flag in (("in-unit", IN_UNIT, UNIT_SUB), ("in-none", ClientSettings(), NONE)):
        if kind is PushConsumer:
            consumer: PushConsumer | PullConsumer = PushConsumer(
                group, cluster.namesrv_address, settings=settings, listener=listen
            )
        else:
            consumer = PullConsumer(group, cluster.namesrv_address, settings)
        async with consumer:
            consumer.subscribe("orders")

            async def is_marked(group: str = group, flag: int = flag) -> bool:
                return await flags_of(cluster, f"%RETRY%{group}") == {flag}

            await aeventually(is_marked)


@pytest.mark.row("PR-25")
@pytest.mark.parametrize(("is_unit", "flag"), [(True, UNIT_SUB), (False, NONE)])
async def test_the_retry_topic_has_the_other_bit_whatever_creates_it(
    cluster: Cluster, *, is_unit: bool, flag: int
) -> None:
    address = cluster.broker_addresses[0]
    async with WireClient(address) as client:
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("%RETRY%sent", unitMode=is_unit), b"x")
        part = ConsumerPart(
            group_name="beating", subscriptions=[Subscription(topic="orders")], unit_mode=is_unit
        )
        beat = encode_heartbeat(Heartbeat(client_id="c", consumers=[part]))
        await client.ask(RequestCode.HEART_BEAT, None, beat)
        sent = await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"x")
        back = {
            "offset": parse_offset_message_id((sent.ext or {})["msgId"]).position,
            "group": "back",
            "delayLevel": 3,
            "originMsgId": "ID",
            "originTopic": "orders",
            "unitMode": is_unit,
            "maxReconsumeTimes": 16,
        }
        await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)

    flags = {name: await config_of(address, f"%RETRY%{name}") for name in ("sent", "beating", "back")}
    assert {name: config and config.topic_sys_flag for name, config in flags.items()} == {
        "sent": flag,
        "beating": flag,
        "back": flag,
    }
