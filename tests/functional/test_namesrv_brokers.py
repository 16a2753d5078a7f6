"""Brokers that come, stay, move and go, as clients see it in routes."""

import asyncio

import pytest
from namesrv_stage import StageBroker, name_server

from pyromq.codes import RequestCode
from pyromq.config.settings import NetSettings
from pyromq.net.links import Links
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.registration_bodies import decode_key_values
from pyromq.wire.bodies.route_bodies import decode_cluster, decode_route
from pyromq.wire.bodies.topic_bodies import DataVersion, decode_data_version, encode_data_version
from pyromq.wire.command import Command

code = RequestCode


@pytest.fixture
async def server():
    async with name_server() as server:
        yield server


@pytest.fixture
async def client(server):
    async with WireClient(server.address) as client:
        yield client


@pytest.fixture
async def broker(server):
    async with WireClient(server.address) as connection:
        yield StageBroker(connection).has_topics("T")


async def addresses(client, topic="T"):
    """Who serves a topic: broker name → id → address; None when nobody does."""
    answer = await client.ask(code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    if answer.code == 17:
        return None
    return {one.broker_name: one.broker_addrs for one in decode_route(answer.body).broker_datas}


@pytest.mark.row("NS-01", "NS-09", "NS-15")
async def test_what_a_broker_registers_clients_can_ask_for(client, broker):
    answer = await broker.register()

    assert answer.code == 0
    assert await addresses(client) == {"broker-a": {0: "127.0.0.1:10911"}}


@pytest.mark.row("NS-09")
async def test_a_broker_may_register_compressed(client, broker):
    answer = await broker.register(compressed=True)

    assert answer.code == 0
    assert await addresses(client) is not None


async def test_a_body_that_changed_on_its_way_is_refused(client, broker):
    answer = await broker.register(crc32=1)

    assert (answer.code, answer.remark) == (1, "crc32 not match")
    assert await addresses(client) is None


async def test_a_broker_that_does_not_compute_the_checksum_is_taken(client, broker):
    assert (await broker.register(crc32=0)).code == 0


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"topicConfigSerializeWrapper":3}'])
async def test_a_registration_that_does_not_read_is_answered_and_changes_nothing(client, broker, body):
    fields = {
        "brokerName": "x",
        "brokerAddr": "1.1.1.1:1",
        "clusterName": "c",
        "haServerAddr": "",
        "brokerId": "0",
    }

    answer = await broker.client.ask(code.REGISTER_BROKER, fields, body)

    assert answer.code == 1
    assert decode_cluster((await client.ask(code.GET_BROKER_CLUSTER_INFO)).body).broker_addr_table == {}


async def test_a_registration_without_a_field_is_answered_by_its_name(broker):
    answer = await broker.client.ask(code.REGISTER_BROKER, {"brokerName": "x"})

    assert answer.code == 1
    assert "brokerAddr" in answer.remark


async def test_a_broker_without_a_body_has_no_topics(client, broker):
    fields = broker.goodbye() | {"haServerAddr": broker.ha_address}

    answer = await broker.client.ask(code.REGISTER_BROKER, fields)

    assert answer.code == 0
    assert await addresses(client) is None


@pytest.mark.row("NS-10")
async def test_the_answer_to_a_master_has_no_master(broker):
    answer = await broker.register()

    assert (answer.ext, answer.body) == ({}, b"")


@pytest.mark.row("NS-10")
async def test_the_answer_to_a_slave_says_where_its_master_is(server, broker):
    await broker.register()
    async with WireClient(server.address) as connection:
        answer = await StageBroker(connection, broker_id=1, port=10921).register()

    assert answer.ext == {"masterAddr": "127.0.0.1:10911", "haServerAddr": "127.0.0.1:10912"}


@pytest.mark.row("NS-11")
async def test_only_the_masters_topics_count(server, client, broker):
    await broker.register()
    async with WireClient(server.address) as connection:
        await StageBroker(connection, broker_id=1, port=10921).has_topics("OnSlave").register()

        assert await addresses(client, "OnSlave") is None
        assert await addresses(client) == {"broker-a": {0: "127.0.0.1:10911", 1: "127.0.0.1:10921"}}


@pytest.mark.row("NS-10")
async def test_a_slave_that_became_master_is_listed_once(client, broker):
    broker.broker_id = 1
    await broker.register()
    broker.broker_id = 0
    await broker.register()

    assert await addresses(client) == {"broker-a": {0: "127.0.0.1:10911"}}


@pytest.mark.row("NS-12")
async def test_a_broker_whose_connection_ends_is_gone_at_once(server, client):
    async with WireClient(server.address) as connection:
        await StageBroker(connection).has_topics("T").register()
        before = await addresses(client)

    assert before is not None
    await aeventually(lambda: gone(client))


async def gone(client):
    return await addresses(client) is None


@pytest.mark.row("NS-12")
async def test_a_silent_broker_is_dropped_after_two_minutes():
    clock = ManualClock()
    async with (
        name_server(clock=clock, scan_not_active_broker_interval=1) as server,
        WireClient(server.address) as connection,
        WireClient(server.address) as client,
    ):
        await StageBroker(connection).has_topics("T").register()
        clock.advance(119_000)
        server.drop_silent()
        before = await addresses(client)
        clock.advance(2_000)

        assert before is not None
        await aeventually(lambda: gone(client))


@pytest.mark.row("NS-12")
async def test_a_broker_that_asks_about_its_version_is_not_silent():
    clock = ManualClock()
    async with name_server(clock=clock) as server, WireClient(server.address) as connection:
        broker = StageBroker(connection).has_topics("T")
        await broker.register()
        clock.advance(100_000)
        await connection.ask(code.QUERY_DATA_VERSION, broker.goodbye(), encode_data_version(broker.version))
        clock.advance(100_000)
        server.drop_silent()

        assert await addresses(connection) is not None


async def test_a_broker_is_told_whether_its_topics_are_news(broker):
    unknown = await broker.client.ask(
        code.QUERY_DATA_VERSION, broker.goodbye(), encode_data_version(broker.version)
    )
    await broker.register()
    known = await broker.client.ask(
        code.QUERY_DATA_VERSION, broker.goodbye(), encode_data_version(broker.version)
    )
    newer = await broker.client.ask(
        code.QUERY_DATA_VERSION, broker.goodbye(), encode_data_version(DataVersion(timestamp=9, counter=9))
    )

    assert (unknown.ext, unknown.body) == ({"changed": "true"}, b"")
    assert (known.ext, decode_data_version(known.body)) == ({"changed": "false"}, broker.version)
    assert (newer.ext, decode_data_version(newer.body)) == ({"changed": "true"}, broker.version)


@pytest.mark.row("NS-13")
async def test_a_broker_that_unregisters_is_gone(client, broker):
    await broker.register()

    answer = await broker.client.ask(code.UNREGISTER_BROKER, broker.goodbye())

    assert answer.code == 0
    assert await addresses(client) is None


@pytest.mark.row("NS-13")
async def test_a_broker_may_unregister_without_waiting(client, broker):
    await broker.register()

    broker.client.tell(code.UNREGISTER_BROKER, broker.goodbye())

    await aeventually(lambda: gone(client))


@pytest.mark.row("NS-14")
async def test_clients_are_not_told_of_changes(client, broker):
    await addresses(client)

    await broker.register()
    await addresses(client)

    assert client.pushed == []


@pytest.mark.row("NS-16")
async def test_routes_are_not_kept_over_a_restart(tmp_path):
    kept = {"kv_config_path": str(tmp_path / "kvConfig.json")}
    async with name_server(**kept) as server, WireClient(server.address) as connection:
        await StageBroker(connection).has_topics("T").register()
    async with name_server(**kept) as server, WireClient(server.address) as client:
        assert await addresses(client) is None


@pytest.mark.row("NS-01", "NS-08", "NS-17", "NS-18")
async def test_two_name_servers_know_the_same_broker_and_nothing_of_each_other():
    async with name_server() as first, name_server() as second:
        links = Links(NetSettings())
        async with WireClient(first.address) as connection, WireClient(second.address) as other:
            for one in (connection, other):
                await StageBroker(one).has_topics("T").register()
            await first.close()

            answer = await links.request(
                second.address, Command(code.GET_ROUTEINFO_BY_TOPIC, ext={"topic": "T"}), 5
            )
        await links.close()

    assert decode_route(answer.body).broker_datas[0].broker_name == "broker-a"


async def test_a_name_server_that_is_added_later_learns_all_from_the_brokers(broker):
    await broker.register()
    async with (
        name_server() as added,
        WireClient(added.address) as connection,
        WireClient(added.address) as client,
    ):
        before = await addresses(client)
        broker.client = connection
        await broker.register()

        assert before is None
        assert await addresses(client) == {"broker-a": {0: "127.0.0.1:10911"}}


@pytest.mark.row("NS-19")
async def test_ordered_topics_have_their_configuration_in_the_route_when_it_is_enabled(broker):
    async with name_server(order_message_enable=True) as server, WireClient(server.address) as connection:
        broker.client = connection
        value = "broker-a:4;broker-b:4"
        await connection.ask(
            code.PUT_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": value}
        )

        registered = await broker.register()
        answer = await connection.ask(code.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})

    assert decode_key_values(registered.body).table == {"T": value}
    assert decode_route(answer.body).order_topic_conf == value
    assert b'"orderTopicConf":"broker-a:4;broker-b:4","queueDatas"' in answer.body


@pytest.mark.row("NS-19")
async def test_ordered_topics_have_none_when_it_is_not_enabled(client, broker):
    await client.ask(
        code.PUT_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"}
    )
    await broker.register()

    answer = await client.ask(code.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})

    assert b"orderTopicConf" not in answer.body


async def test_many_brokers_at_once(server, client):
    async with WireClient(server.address) as connection:
        brokers = [StageBroker(connection, f"broker-{n}", port=20000 + n).has_topics("T") for n in range(30)]
        await asyncio.gather(*(broker.register() for broker in brokers))

        assert len(await addresses(client)) == 30
