"""What operators ask of a name server, and what they change."""

import asyncio

import pytest
from namesrv_stage import StageBroker, name_server

from pyromq.codes import RequestCode, TopicSysFlag
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.list_bodies import decode_topic_list
from pyromq.wire.bodies.registration_bodies import decode_key_values
from pyromq.wire.bodies.route_bodies import decode_cluster, decode_route
from pyromq.wire.bodies.topic_bodies import TopicConfig

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
async def brokers(server):
    """broker-a in DefaultCluster with T and U, broker-c in Other with U."""
    async with WireClient(server.address) as first, WireClient(server.address) as second:
        one = StageBroker(first).has_topics("T", "U")
        two = StageBroker(second, "broker-c", port=10941).has_topics("U")
        two.cluster = "Other"
        await one.register()
        await two.register()
        yield [one, two]


async def topics(client, request_code, **fields):
    return sorted(decode_topic_list((await client.ask(request_code, fields)).body).topic_list)


@pytest.mark.row("NS-03", "NS-04")
@pytest.mark.usefixtures("brokers")
async def test_the_cluster_is_shown_with_broker_ids_that_have_no_quotes(client):
    answer = await client.ask(code.GET_BROKER_CLUSTER_INFO)

    cluster = decode_cluster(answer.body)
    assert cluster.cluster_addr_table == {"DefaultCluster": ["broker-a"], "Other": ["broker-c"]}
    assert cluster.broker_addr_table["broker-c"].broker_addrs == {0: "127.0.0.1:10941"}
    assert b'{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster"}' in (
        answer.body
    )


@pytest.mark.usefixtures("brokers")
async def test_topics_are_listed_all_and_by_cluster(client):
    assert await topics(client, code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["T", "U"]
    assert await topics(client, code.GET_TOPICS_BY_CLUSTER, cluster="Other") == ["U"]
    assert await topics(client, code.GET_TOPICS_BY_CLUSTER, cluster="None") == []


@pytest.mark.usefixtures("brokers")
async def test_the_names_of_clusters_and_brokers_are_system_topics(client):
    answer = await client.ask(code.GET_SYSTEM_TOPIC_LIST_FROM_NS)

    listed = decode_topic_list(answer.body)
    assert sorted(listed.topic_list) == ["DefaultCluster", "Other", "broker-a", "broker-c"]
    assert listed.broker_addr == "127.0.0.1:10911"


async def test_topics_are_listed_by_unit(client, brokers):
    both = int(TopicSysFlag.UNIT | TopicSysFlag.UNIT_SUB)
    brokers[0].has_topics(
        TopicConfig(topic_name="unit", topic_sys_flag=int(TopicSysFlag.UNIT)),
        TopicConfig(topic_name="sub", topic_sys_flag=int(TopicSysFlag.UNIT_SUB)),
        TopicConfig(topic_name="both", topic_sys_flag=both),
    )
    await brokers[0].register()

    assert await topics(client, code.GET_UNIT_TOPIC_LIST) == ["both", "unit"]
    assert await topics(client, code.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["both", "sub"]
    assert await topics(client, code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["sub"]


@pytest.mark.usefixtures("brokers")
async def test_a_topic_is_deleted_in_one_cluster_or_in_all(client):
    await client.ask(code.DELETE_TOPIC_IN_NAMESRV, {"topic": "U", "clusterName": "Other"})
    in_one = await topics(client, code.GET_TOPICS_BY_CLUSTER, cluster="Other")
    left = await topics(client, code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    await client.ask(code.DELETE_TOPIC_IN_NAMESRV, {"topic": "U"})

    assert (in_one, left) == ([], ["T", "U"])
    assert await topics(client, code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["T"]


async def test_write_permission_is_taken_and_given_back(client, brokers):
    wiped = await client.ask(code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    await brokers[0].register()
    perms_after_wipe = await perms(client)
    added = await client.ask(code.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})

    assert wiped.ext == {"wipeTopicCount": "2"}
    assert perms_after_wipe == {"broker-a": 4, "broker-c": 6}, "a heartbeat without news does not undo it"
    assert added.ext == {"addTopicCount": "2"}
    assert await perms(client) == {"broker-a": 6, "broker-c": 6}


async def perms(client):
    route = decode_route((await client.ask(code.GET_ROUTEINFO_BY_TOPIC, {"topic": "U"})).body)
    return {queues.broker_name: queues.perm for queues in route.queue_datas}


async def test_of_an_unknown_broker_no_topics_change(client):
    answer = await client.ask(code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "stranger"})

    assert answer.ext == {"wipeTopicCount": "0"}


@pytest.mark.row("NS-16")
async def test_key_values_outlive_a_restart(tmp_path):
    path = tmp_path / "data" / "kvConfig.json"
    async with name_server(kv_config_path=str(path)) as server, WireClient(server.address) as client:
        for key in ("a", "b"):
            put = await client.ask(
                code.PUT_KV_CONFIG, {"namespace": "ns", "key": key, "value": f"value {key}"}
            )
        await client.ask(code.DELETE_KV_CONFIG, {"namespace": "ns", "key": "b"})

    async with name_server(kv_config_path=str(path)) as server, WireClient(server.address) as client:
        one = await client.ask(code.GET_KV_CONFIG, {"namespace": "ns", "key": "a"})
        gone = await client.ask(code.GET_KV_CONFIG, {"namespace": "ns", "key": "b"})
        all_of_them = await client.ask(code.GET_KVLIST_BY_NAMESPACE, {"namespace": "ns"})

    assert put.code == 0
    assert one.ext == {"value": "value a"}
    assert (gone.code, gone.remark) == (22, "No config item, Namespace: ns Key: b")
    assert decode_key_values(all_of_them.body).table == {"a": "value a"}


async def test_values_put_at_the_same_time_are_all_kept(tmp_path):
    path = tmp_path / "kvConfig.json"
    async with name_server(kv_config_path=str(path)) as server, WireClient(server.address) as client:
        await asyncio.gather(
            *(
                client.ask(code.PUT_KV_CONFIG, {"namespace": "ns", "key": str(n), "value": "x"})
                for n in range(20)
            )
        )
    async with name_server(kv_config_path=str(path)) as server, WireClient(server.address) as client:
        answer = await client.ask(code.GET_KVLIST_BY_NAMESPACE, {"namespace": "ns"})

    assert len(decode_key_values(answer.body).table) == 20


async def test_settings_are_shown_and_live_ones_change(client):
    before = (await client.ask(code.GET_NAMESRV_CONFIG)).body.decode()
    changed = await client.ask(code.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n")
    after = (await client.ask(code.GET_NAMESRV_CONFIG)).body.decode()

    assert changed.code == 0
    assert "orderMessageEnable=false\n" in before
    assert "orderMessageEnable=true\n" in after


@pytest.mark.parametrize("key", ["kvConfigPath", "configStorePath", "configBlackList"])
async def test_nothing_that_arrives_can_name_a_path(client, key):
    answer = await client.ask(code.UPDATE_NAMESRV_CONFIG, body=f"{key}=/tmp/evil".encode())

    assert (answer.code, answer.remark) == (16, "Can not update config in black list.")


async def test_a_setting_that_is_not_known_is_refused_with_the_nearest(client):
    answer = await client.ask(code.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnabled=true")

    assert answer.code == 1
    assert "orderMessageEnable" in answer.remark


async def test_an_unknown_code_is_not_answered_and_the_connection_goes_on(client, caplog):
    silence = client.begin(9999)

    after = await client.ask(code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)

    assert after.code == 0
    assert not silence.done()
    assert [record.message for record in caplog.records if record.name == "pyromq.net"] == [
        f"name server: {client.own_address} asks for code 9999, which is unknown here"
    ]
