"""The five tables: no socket, no clock."""

import pytest

from pyromq.codes import TopicSysFlag
from pyromq.namesrv.route_table import BrokerRegistration, Master, RouteTable
from pyromq.wire.bodies.route_bodies import BrokerQueues, TopicRoute
from pyromq.wire.bodies.topic_bodies import DataVersion, TopicConfig, TopicConfigTable

LINK_A, LINK_B, LINK_C = object(), object(), object()


def topics(*names, version=1, **fields):
    return TopicConfigTable(
        data_version=DataVersion(timestamp=1, counter=version),
        topic_config_table={name: TopicConfig(topic_name=name, **fields) for name in names},
    )


def broker(name="broker-a", broker_id=0, *, port=10911, cluster="DefaultCluster", of=None, **fields):
    return BrokerRegistration(
        cluster=cluster,
        broker_name=name,
        broker_id=broker_id,
        address=f"10.0.0.1:{port}",
        ha_address=f"10.0.0.1:{port + 1}",
        topics=of or topics("T"),
        **fields,
    )


@pytest.fixture
def table():
    return RouteTable()


def register(table, said, *, link=LINK_A, now_s=0.0):
    return table.register(said, link=link, now_s=now_s)


def brokers_of(route):
    return {one.broker_name: one.broker_addrs for one in route.broker_datas}


@pytest.mark.row("NS-02", "NS-07")
def test_a_topic_has_one_entry_of_queues_for_each_broker(table):
    register(
        table,
        broker(of=topics("T", read_queue_nums=4, write_queue_nums=8, perm=6, topic_sys_flag=1)),
    )
    register(table, broker("broker-b", port=10931, of=topics("T")), link=LINK_B)

    by_broker = {queues.broker_name: queues for queues in table.route("T").queue_datas}

    assert by_broker["broker-a"] == BrokerQueues(
        broker_name="broker-a", read_queue_nums=4, write_queue_nums=8, perm=6, topic_sys_flag=1
    )
    assert set(by_broker) == {"broker-a", "broker-b"}


@pytest.mark.row("NS-03")
def test_a_broker_name_has_its_cluster_and_addresses_by_id(table):
    register(table, broker())
    register(table, broker(broker_id=1, port=10921), link=LINK_B)

    brokers = table.cluster_table().broker_addr_table

    assert brokers["broker-a"].cluster == "DefaultCluster"
    assert brokers["broker-a"].broker_addrs == {0: "10.0.0.1:10911", 1: "10.0.0.1:10921"}


@pytest.mark.row("NS-04")
def test_a_cluster_is_a_set_of_broker_names(table):
    register(table, broker())
    register(table, broker(broker_id=1, port=10921), link=LINK_B)
    register(table, broker("broker-b", port=10931), link=LINK_B)
    register(table, broker("broker-c", port=10941, cluster="Other"), link=LINK_C)

    assert table.cluster_table().cluster_addr_table == {
        "DefaultCluster": ["broker-b", "broker-a"],
        "Other": ["broker-c"],
    }


@pytest.mark.row("NS-05")
def test_a_live_broker_is_known_by_its_address_with_the_version_of_its_topics(table):
    register(table, broker(of=topics("T", version=7)))

    assert table.version_of("10.0.0.1:10911") == DataVersion(timestamp=1, counter=7)
    assert table.version_of("10.0.0.1:1") is None


@pytest.mark.row("NS-06", "NS-15")
def test_a_route_lists_the_filter_servers_of_its_brokers(table):
    register(table, broker(filter_servers=["10.0.0.9:1"]))
    register(table, broker("broker-b", port=10931, of=topics("Other"), filter_servers=["10.0.0.9:2"]))

    assert table.route("T").filter_server_table == {"10.0.0.1:10911": ["10.0.0.9:1"]}


@pytest.mark.row("NS-06")
def test_a_broker_without_filter_servers_takes_back_those_it_had(table):
    register(table, broker(filter_servers=["10.0.0.9:1"]))
    register(table, broker())

    assert table.route("T").filter_server_table == {}


@pytest.mark.row("NS-15")
def test_a_topic_that_nobody_serves_has_no_route(table):
    register(table, broker())

    assert table.route("Unknown") is None


@pytest.mark.row("NS-15")
def test_brokers_come_in_the_order_of_javas_hash_map(table):
    register(table, broker("broker-a"))
    register(table, broker("broker-b", port=10931), link=LINK_B)

    assert [one.broker_name for one in table.route("T").broker_datas] == ["broker-b", "broker-a"]


@pytest.mark.row("NS-10", "NS-11")
def test_a_slaves_topics_make_no_route(table):
    register(table, broker(broker_id=1, of=topics("OnSlave")))

    assert table.route("OnSlave") is None
    assert table.topics().topic_list == []


@pytest.mark.row("NS-10")
def test_a_slave_learns_where_its_master_is(table):
    assert register(table, broker(broker_id=1, port=10921), link=LINK_B) is None
    assert register(table, broker()) is None

    assert register(table, broker(broker_id=1, port=10921), link=LINK_B) == Master(
        "10.0.0.1:10911", "10.0.0.1:10912"
    )


@pytest.mark.row("NS-10")
def test_a_slave_whose_master_is_gone_learns_nothing(table):
    register(table, broker())
    register(table, broker(broker_id=1, port=10921), link=LINK_B)
    table.drop_link(LINK_A)

    assert register(table, broker(broker_id=1, port=10921), link=LINK_B) is None


@pytest.mark.row("NS-10")
def test_a_slave_that_becomes_master_is_no_slave_any_more(table):
    register(table, broker(broker_id=1))
    register(table, broker(broker_id=0))

    assert brokers_of(table.route("T")) == {"broker-a": {0: "10.0.0.1:10911"}}


@pytest.mark.row("NS-10")
def test_a_new_master_takes_the_place_of_the_old_one(table):
    register(table, broker())
    register(table, broker(port=10999), link=LINK_B)

    table.drop_link(LINK_A)

    assert brokers_of(table.route("T")) == {"broker-a": {0: "10.0.0.1:10999"}}


@pytest.mark.row("NS-10")
def test_topics_of_a_known_version_change_nothing(table):
    register(table, broker(of=topics("T", version=1)))
    table.wipe_write_permission("broker-a")

    register(table, broker(of=topics("T", "U", version=1)))

    assert table.route("U") is None
    assert table.route("T").queue_datas[0].perm == 4


@pytest.mark.row("NS-10")
def test_topics_of_a_new_version_replace_what_was_known_of_them(table):
    register(table, broker(of=topics("T", version=1)))
    table.wipe_write_permission("broker-a")

    register(table, broker(of=topics("T", "U", version=2)))

    assert table.route("U") is not None
    assert table.route("T").queue_datas[0].perm == 6


@pytest.mark.row("NS-10")
def test_a_master_on_a_new_address_registers_its_topics_whatever_their_version(table):
    register(table, broker(broker_id=1, port=10921, of=topics("T", "U", version=1)))
    register(table, broker(broker_id=0, port=10921, of=topics("T", "U", version=1)))

    assert table.route("U") is not None


def test_what_is_news_depends_on_the_version(table):
    register(table, broker(of=topics("T", version=3)))

    assert not table.has_changed("10.0.0.1:10911", DataVersion(timestamp=1, counter=3))
    assert table.has_changed("10.0.0.1:10911", DataVersion(timestamp=1, counter=4))
    assert table.has_changed("10.0.0.1:10911", DataVersion(timestamp=2, counter=3))
    assert table.has_changed("10.0.0.2:10911", DataVersion(timestamp=1, counter=3))


@pytest.mark.row("NS-13")
def test_with_its_last_broker_a_topic_and_a_cluster_go(table):
    register(table, broker(filter_servers=["10.0.0.9:1"]))

    gone = table.drop_link(LINK_A)

    assert gone == ["10.0.0.1:10911"]
    assert table.version_of("10.0.0.1:10911") is None
    assert table.cluster_table().broker_addr_table == {}
    assert table.cluster_table().cluster_addr_table == {}
    assert table.topics().topic_list == []
    assert table.route("T") is None


@pytest.mark.row("NS-13")
def test_when_one_broker_goes_the_others_keep_serving_the_topic(table):
    register(table, broker())
    register(table, broker("broker-b", port=10931), link=LINK_B)

    table.drop_link(LINK_A)

    assert brokers_of(table.route("T")) == {"broker-b": {0: "10.0.0.1:10931"}}
    assert table.cluster_table().cluster_addr_table == {"DefaultCluster": ["broker-b"]}


@pytest.mark.row("NS-13")
def test_when_a_master_goes_its_slave_keeps_the_topic(table):
    register(table, broker())
    register(table, broker(broker_id=1, port=10921), link=LINK_B)

    table.drop_link(LINK_A)

    assert brokers_of(table.route("T")) == {"broker-a": {1: "10.0.0.1:10921"}}


def test_a_broker_that_came_back_over_a_new_link_outlives_the_end_of_the_old_one(table):
    register(table, broker(), link=LINK_A)
    register(table, broker(), link=LINK_B)

    assert table.drop_link(LINK_A) == []
    assert table.route("T") is not None


def test_all_brokers_of_a_link_go_with_it(table):
    register(table, broker())
    register(table, broker("broker-b", port=10931))

    assert sorted(table.drop_link(LINK_A)) == ["10.0.0.1:10911", "10.0.0.1:10931"]


@pytest.mark.row("NS-12")
def test_a_broker_is_dropped_when_it_was_silent_longer_than_allowed(table):
    register(table, broker(), now_s=0.0)
    register(table, broker("broker-b", port=10931), link=LINK_B, now_s=1.0)

    at_the_limit = table.drop_silent(now_s=120.0, silence_s=120)
    past_it = table.drop_silent(now_s=120.5, silence_s=120)

    assert at_the_limit == {}
    assert past_it == {"10.0.0.1:10911": LINK_A}
    assert brokers_of(table.route("T")) == {"broker-b": {0: "10.0.0.1:10931"}}


@pytest.mark.row("NS-12")
def test_a_broker_that_is_heard_is_not_silent(table):
    register(table, broker(), now_s=0.0)

    table.hear("10.0.0.1:10911", now_s=100.0)
    table.hear("10.0.0.1:1", now_s=100.0)

    assert table.drop_silent(now_s=150.0, silence_s=120) == {}


def goodbye(table, **fields):
    said = {"broker_name": "broker-a", "broker_id": 0, "address": "10.0.0.1:10911"}
    table.unregister(**(said | fields))


@pytest.mark.row("NS-13")
def test_a_broker_that_says_goodbye_is_gone(table):
    register(table, broker())

    goodbye(table)

    assert table.route("T") is None
    assert table.cluster_table().cluster_addr_table == {}


def test_a_goodbye_of_one_replica_leaves_the_other(table):
    register(table, broker())
    register(table, broker(broker_id=1, port=10921), link=LINK_B)

    goodbye(table)

    assert brokers_of(table.route("T")) == {"broker-a": {1: "10.0.0.1:10921"}}


def test_a_late_goodbye_does_not_take_the_successor_along(table):
    register(table, broker())
    register(table, broker(port=10999), link=LINK_B)

    goodbye(table)

    assert brokers_of(table.route("T")) == {"broker-a": {0: "10.0.0.1:10999"}}


def test_a_goodbye_of_a_stranger_changes_nothing(table):
    register(table, broker())

    goodbye(table, broker_name="stranger", address="10.0.0.1:1")

    assert table.route("T") is not None


def test_a_broker_that_changed_its_cluster_leaves_no_trace(table):
    register(table, broker())
    register(table, broker(cluster="Other"))

    goodbye(table)

    assert table.cluster_table().cluster_addr_table == {}


@pytest.mark.row("NS-15")
def test_a_topic_whose_broker_is_gone_from_the_names_has_no_route(table):
    register(table, broker(of=topics("T")))
    register(table, broker("broker-b", port=10931, of=topics("U")), link=LINK_B)

    table.delete_topic("T")

    assert table.route("T") is None
    assert isinstance(table.route("U"), TopicRoute)


def test_a_topic_is_forgotten_in_one_cluster_only(table):
    register(table, broker())
    register(table, broker("broker-c", port=10941, cluster="Other"), link=LINK_B)

    table.delete_topic("T", "Other")

    assert brokers_of(table.route("T")) == {"broker-a": {0: "10.0.0.1:10911"}}


def test_a_topic_that_is_forgotten_in_its_last_cluster_is_gone(table):
    register(table, broker())

    table.delete_topic("Unknown", "DefaultCluster")
    table.delete_topic("T", "NoSuchCluster")
    table.delete_topic("T", "DefaultCluster")

    assert table.topics().topic_list == []


def test_topics_are_listed_by_cluster(table):
    register(table, broker(of=topics("T", "Both")))
    register(table, broker("broker-c", port=10941, cluster="Other", of=topics("Both")), link=LINK_B)

    assert sorted(table.topics().topic_list) == ["Both", "T"]
    assert sorted(table.topics_of("DefaultCluster").topic_list) == ["Both", "T"]
    assert table.topics_of("Other").topic_list == ["Both"]
    assert table.topics_of("NoSuchCluster").topic_list == []


def test_the_names_of_clusters_and_brokers_are_system_topics(table):
    register(table, broker())

    listed = table.system_topics()

    assert sorted(listed.topic_list) == ["DefaultCluster", "broker-a"]
    assert listed.broker_addr == "10.0.0.1:10911"


def test_without_a_broker_there_are_no_system_topics(table):
    listed = table.system_topics()

    assert (listed.topic_list, listed.broker_addr) == ([], None)


def test_topics_are_listed_by_their_unit_flags(table):
    both = TopicSysFlag.UNIT | TopicSysFlag.UNIT_SUB
    flags = {"plain": 0, "unit": TopicSysFlag.UNIT, "sub": TopicSysFlag.UNIT_SUB, "both": both}
    configs = {name: TopicConfig(topic_name=name, topic_sys_flag=int(flag)) for name, flag in flags.items()}
    register(table, broker(of=TopicConfigTable(topic_config_table=configs)))

    assert sorted(table.unit_topics().topic_list) == ["both", "unit"]
    assert sorted(table.unit_sub_topics().topic_list) == ["both", "sub"]
    assert table.unit_sub_ununit_topics().topic_list == ["sub"]


def test_write_permission_is_taken_and_given_for_all_topics_of_a_broker(table):
    register(table, broker(of=topics("T", "U")))
    register(table, broker("broker-b", port=10931, of=topics("T", version=1)), link=LINK_B)

    wiped = table.wipe_write_permission("broker-a")
    perms_wiped = {queues.broker_name: queues.perm for queues in table.route("T").queue_datas}
    added = table.add_write_permission("broker-a")
    perms_added = {queues.broker_name: queues.perm for queues in table.route("T").queue_datas}

    assert (wiped, added) == (2, 2)
    assert perms_wiped == {"broker-a": 4, "broker-b": 6}
    assert perms_added == {"broker-a": 6, "broker-b": 6}
    assert table.wipe_write_permission("stranger") == 0
