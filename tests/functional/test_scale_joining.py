"""A broker comes to a cluster and takes over its topics; a first send creates its topic on all brokers."""

import logging
from pathlib import Path

import pytest
from scale_stage import joining_broker, silent_broker

from pyromq import aio
from pyromq.broker.topics import joining
from pyromq.codes import Perm, RequestCode
from pyromq.config.choices import BrokerRole
from pyromq.model import Message
from pyromq.net.links import Links
from pyromq.testing.cluster import Cluster
from pyromq.testing.requests import send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.group_bodies import decode_group_table
from pyromq.wire.bodies.topic_bodies import TopicConfig, decode_topic_table
from pyromq.wire.command import Command

pytestmark = pytest.mark.row("AD-08")


async def topics_of(address: str) -> dict[str, TopicConfig]:
    async with WireClient(address) as client:
        answer = await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    return decode_topic_table(answer.body).topic_config_table


async def groups_of(address: str) -> set[str]:
    async with WireClient(address) as client:
        answer = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    return set(decode_group_table(answer.body).subscription_group_table)


async def create(cluster: Cluster, topic: str, queues: int = 3, **where: str) -> None:
    async with aio.Admin(cluster.namesrv_address) as admin:
        await admin.create_topic(topic, queues, perm=Perm.READ, **where)


async def test_a_new_broker_takes_over_topics_as_they_are(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as cluster:
        await create(cluster, "orders")
        async with joining_broker(cluster.namesrv_address, tmp_path) as broker:
            there = (await topics_of(cluster.broker_addresses[0]))["orders"]

            assert (await topics_of(broker.address))["orders"] == there
            assert there.read_queue_nums == 3
            assert there.perm == Perm.READ


async def test_what_it_took_over_is_in_the_routes_when_it_is_started(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as cluster:
        await create(cluster, "orders")
        async with joining_broker(cluster.namesrv_address, tmp_path):
            async with aio.Admin(cluster.namesrv_address) as admin:
                route = await admin.route("orders")

            assert {queues.broker_name for queues in route.queue_datas} == {"broker-a", "broker-new"}


async def test_groups_come_along(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as cluster:
        await create(cluster, "orders")
        async with aio.PullConsumer("billing", cluster.namesrv_address) as consumer:
            (queue, *_) = await consumer.queues("orders")
            await consumer.pull(queue, 0, wait_ms=0)
        assert "billing" in await groups_of(cluster.broker_addresses[0])

        async with joining_broker(cluster.namesrv_address, tmp_path) as broker:
            assert "billing" in await groups_of(broker.address)


async def test_topics_of_all_masters_come_together_and_each_masters_own_stay_there(tmp_path: Path) -> None:
    async with Cluster(2, data_dir=tmp_path) as cluster:
        await create(cluster, "on-a", broker="broker-a")
        await create(cluster, "on-b", broker="broker-b")
        async with joining_broker(cluster.namesrv_address, tmp_path) as broker:
            taken = set(await topics_of(broker.address))

    assert {"on-a", "on-b"} <= taken
    assert not {"broker-a", "broker-b"} & taken


async def test_it_is_off_unless_it_is_asked_for(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as cluster:
        await create(cluster, "orders")
        async with joining_broker(cluster.namesrv_address, tmp_path, copy_topics_on_join=False) as broker:
            assert "orders" not in await topics_of(broker.address)


async def test_a_broker_with_topics_of_its_own_takes_no_others(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as cluster:
        async with joining_broker(cluster.namesrv_address, tmp_path):
            await create(cluster, "first")
        await create(cluster, "second")

        async with joining_broker(cluster.namesrv_address, tmp_path) as broker:
            taken = set(await topics_of(broker.address))

    assert "first" in taken
    assert "second" not in taken


@pytest.mark.row("AD-09")
async def test_a_broker_of_another_cluster_takes_nothing(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as cluster:
        await create(cluster, "orders")
        async with joining_broker(cluster.namesrv_address, tmp_path, broker_cluster_name="Other") as broker:
            assert "orders" not in await topics_of(broker.address)


@pytest.mark.row("AD-09")
async def test_clusters_with_the_same_name_servers_have_their_topics_apart(tmp_path: Path) -> None:
    other = {"broker_cluster_name": "Payments"}
    async with (
        Cluster(data_dir=tmp_path) as cluster,
        joining_broker(cluster.namesrv_address, tmp_path, "pay-a", **other),
        aio.Admin(cluster.namesrv_address) as admin,
        aio.Producer("senders", cluster.namesrv_address) as producer,
    ):
        await admin.create_topic("payments", 4, cluster="Payments")
        await admin.create_topic("logs", 4, cluster="DefaultCluster")

        sent = {
            topic: {(await producer.send(Message(topic, b"x"))).queue.broker_name for _ in range(8)}
            for topic in ("payments", "logs")
        }

    assert sent == {"payments": {"pay-a"}, "logs": {"broker-a"}}


async def test_a_master_that_is_silent_is_said_and_stops_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    request = Links.request

    async def impatient(links: Links, address: str, command: Command, timeout_s: float) -> Command:
        return await request(links, address, command, 0.2 if address == silent else 60.0)

    async with Cluster(data_dir=tmp_path) as cluster:
        await create(cluster, "orders")
        async with silent_broker(cluster.namesrv_address) as silent:
            monkeypatch.setattr(Links, "request", impatient)
            async with joining_broker(cluster.namesrv_address, tmp_path) as broker:
                taken = await topics_of(broker.address)

    assert "orders" in taken
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any(silent in line for line in said)
    assert any("may have topics or groups that are missing here" in line for line in said)


async def test_a_name_server_that_is_gone_stops_no_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with joining_broker("127.0.0.1:1", tmp_path) as broker:
        assert broker.port

    assert "not every server answered" in caplog.text


async def test_a_new_broker_takes_its_share_of_what_is_sent_and_nothing_of_it_is_missed(
    tmp_path: Path,
) -> None:
    async with Cluster(data_dir=tmp_path) as cluster:
        async with aio.Admin(cluster.namesrv_address) as admin:
            await admin.create_topic("orders", 4)
        async with (
            joining_broker(cluster.namesrv_address, tmp_path),
            aio.Producer("senders", cluster.namesrv_address) as producer,
            aio.PullConsumer("readers", cluster.namesrv_address) as consumer,
        ):
            sent = [await producer.send(Message("orders", b"%d" % number)) for number in range(16)]
            read = [
                message.body
                for queue in await consumer.queues("orders")
                for message in (await consumer.pull(queue, 0)).messages
            ]

    assert {result.queue.broker_name for result in sent} == {"broker-a", "broker-new"}
    assert sorted(read) == sorted(b"%d" % number for number in range(16))


# A first send --------------------------------------------------------------------------------------------


async def send_first(address: str, topic: str, queues: int = 4) -> None:
    async with WireClient(address) as client:
        answer = await client.ask(
            RequestCode.SEND_MESSAGE_V2, send_v2_fields(topic, defaultTopicQueueNums=queues), b"first"
        )
    assert answer.code == 0, answer.remark


@pytest.mark.row("PR-12")
async def test_a_first_send_creates_its_topic_only_where_it_went(tmp_path: Path) -> None:
    async with Cluster(2, data_dir=tmp_path) as cluster:
        first, second = cluster.broker_addresses
        await send_first(first, "orders")
        # Whatever else is done for it is done before the next send there is answered.
        await send_first(first, "later")

        assert "orders" in await topics_of(first)
        assert "orders" not in await topics_of(second)


@pytest.mark.row("PR-12", "HA-08")
async def test_with_auto_create_on_all_it_is_on_every_broker(tmp_path: Path) -> None:
    async with Cluster(3, data_dir=tmp_path, auto_create_on_all=True) as cluster:
        first, *others = cluster.broker_addresses
        await send_first(first, "orders")

        here = (await topics_of(first))["orders"]
        assert len(others) == 2
        for address in others:
            await aeventually(lambda address=address: _has(address, "orders"), what=address)
            assert (await topics_of(address))["orders"] == here


async def test_a_topic_that_is_there_already_is_not_changed_by_it(tmp_path: Path) -> None:
    async with Cluster(2, data_dir=tmp_path, auto_create_on_all=True) as cluster:
        first, second = cluster.broker_addresses
        await create(cluster, "orders", 7, broker="broker-b")
        await send_first(first, "orders", queues=2)
        await send_first(first, "later")
        await aeventually(lambda: _has(second, "later"), what="the one after it")

        assert (await topics_of(second))["orders"].read_queue_nums == 7


async def test_a_silent_broker_delays_neither_the_send_nor_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So long that the test would time out if anybody waited for it.
    monkeypatch.setattr(joining, "ANSWER_S_MAX", 3_600.0)
    async with Cluster(2, data_dir=tmp_path, auto_create_on_all=True) as cluster:
        first, second = cluster.broker_addresses
        async with silent_broker(cluster.namesrv_address, "broker-0"):
            await send_first(first, "orders")

            await aeventually(lambda: _has(second, "orders"), what="on the other one")


async def test_a_slave_takes_over_nothing_by_itself(tmp_path: Path) -> None:
    async with Cluster(2, data_dir=tmp_path) as cluster:
        await create(cluster, "on-b", broker="broker-b")
        async with joining_broker(
            cluster.namesrv_address, tmp_path / "2", "broker-a", broker_id=1, broker_role=BrokerRole.SLAVE
        ) as slave:
            assert "on-b" not in await topics_of(slave.address)


async def _has(address: str, topic: str) -> bool:
    return topic in await topics_of(address)
