"""Every command of `pyromq admin`, as it is typed, on brokers in this process."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from admin_stage import AdminStage

from pyromq import Admin, ConsumeFrom, Message, Producer, PushConsumer
from pyromq.cli.main import app
from pyromq.cli.views import listing
from pyromq.errors import ConfigError
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster(2, trace_topic_enable=True) as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: ThreadCluster) -> AdminStage:
    return AdminStage(cluster.namesrv_address)


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


@pytest.fixture
def member(cluster: ThreadCluster, stage: AdminStage, topic: str, group: str) -> Iterator[str]:
    """A member of the group that reads the topic; its client id."""
    stage.fill(topic, 4)
    with PushConsumer(
        group,
        cluster.namesrv_address,
        listener=lambda _: None,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        persist_consumer_offset_interval=100,
    ) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: set(stage.progress(topic, group).values()) == {1}, what="it has read all")
        # A broker answers the first heartbeat of a group before the name server knows of its retry topic.
        eventually(lambda: is_listed(stage, f"%RETRY%{group}"))
        yield consumer.client_id


def is_listed(stage: AdminStage, topic: str) -> bool:
    """Whether a topic is at both brokers, as the name server says."""
    shown = stage.admin("topicRoute", "-t", topic)
    return shown.exit_code == 0 and len(json.loads(shown.stdout)["queueDatas"]) == 2


# All of them ---------------------------------------------------------------------------------------------


def test_all_of_mqadmins_commands_are_there_with_its_options() -> None:
    recorded = json.loads((Path(__file__).parents[1] / "golden/mqadmin-4.9.8-options.json").read_text())
    commands = typer.main.get_command(app).commands["admin"].commands  # type: ignore[attr-defined]

    missing = {
        name: sorted(
            option
            for option in options
            if option not in {word for each in commands[name].params for word in each.opts}
        )
        for name, options in recorded.items()
        if name in commands
    }

    assert set(recorded) <= set(commands)
    assert {name: options for name, options in missing.items() if options} == {}
    assert len(recorded) == 56


# Topics --------------------------------------------------------------------------------------------------


def test_topics_are_listed(stage: AdminStage, topic: str) -> None:
    stage.fill(topic)

    assert topic in stage.admin("topicList").stdout.splitlines()
    assert {"topic": topic} in stage.records("admin", "topicList")


def test_topics_are_listed_with_clusters_and_readers(stage: AdminStage, topic: str, group: str) -> None:
    stage.fill(topic)
    stage.commit(topic, group, 1)

    listed = stage.records("admin", "topicList", "-c")

    assert {"cluster": "DefaultCluster", "topic": topic, "group": group} in listed
    assert stage.admin("topicList", "-c").stdout.splitlines()[0].split() == (
        ["#Cluster", "Name", "#Topic", "#Consumer", "Group"]
    )


def test_a_route_is_shown_as_json_and_as_a_table(
    cluster: ThreadCluster, stage: AdminStage, topic: str
) -> None:
    stage.fill(topic)

    as_json = json.loads(stage.admin("topicRoute", "-t", topic).stdout)
    table = stage.admin("topicRoute", "-t", topic, "-l").stdout.splitlines()

    assert {part["brokerName"] for part in as_json["queueDatas"]} == {"broker-a", "broker-b"}
    assert table[1].split()[:3] == ["DefaultCluster", "broker-a", f"0={cluster.broker_addresses[0]}"]
    assert table[-1] == "Total: 2 brokers, 4 queues to read, 4 to write"


def test_a_topic_that_is_not_there_ends_with_3_and_says_what_to_do(stage: AdminStage) -> None:
    for command in ("topicRoute", "topicStatus", "topicClusterList"):
        ended = stage.admin(command, "-t", "nowhere")

        assert ended.exit_code == 3
        assert "nowhere" in ended.stderr
        assert "pyromq topic list" in ended.stderr


def test_a_name_server_that_is_not_there_ends_with_4() -> None:
    ended = AdminStage("127.0.0.1:1").admin("topicList")

    assert ended.exit_code == 4
    assert "127.0.0.1:1" in ended.stderr
    assert "start one with `pyromq up`" in ended.stderr


def test_the_status_of_a_topic_has_all_queues(stage: AdminStage, topic: str) -> None:
    stage.fill(topic, 16)

    rows = stage.records("admin", "topicStatus", "-t", topic)

    assert [(row["broker"], row["queue"], row["min_offset"]) for row in rows] == [
        ("broker-a", 0, 0),
        ("broker-a", 1, 0),
        ("broker-b", 0, 0),
        ("broker-b", 1, 0),
    ]
    assert sum(row["max_offset"] for row in rows) == 16


def test_a_number_that_moves_is_watched(
    stage: AdminStage, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.fill(topic, 4)
    waits: list[float] = []

    def send_meanwhile(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt
        stage.fill(topic, 4)

    monkeypatch.setattr(listing, "pause", send_meanwhile)
    ended = stage.admin("topicStatus", "-t", topic, "--json", "--watch", "0.5")
    rows = [json.loads(line)["max_offset"] for line in ended.stdout.splitlines()]

    assert waits == [0.5, 0.5]
    assert (sum(rows[:4]), sum(rows[4:])) == (4, 8)


def test_the_clusters_of_a_topic_are_listed(stage: AdminStage, topic: str) -> None:
    stage.fill(topic)

    assert stage.admin("topicClusterList", "-t", topic).stdout == "DefaultCluster\n"


def test_a_topic_is_deleted_on_all_brokers_and_name_servers(stage: AdminStage, topic: str) -> None:
    stage.fill(topic)

    ended = stage.admin("deleteTopic", "-t", topic, "-c", "DefaultCluster")

    assert ended.exit_code == 0
    assert ended.stdout.count(f"delete topic [{topic}] from ") == 3
    assert stage.admin("topicRoute", "-t", topic).exit_code == 3


def test_what_may_be_done_with_a_topic_changes(cluster: ThreadCluster, stage: AdminStage, topic: str) -> None:
    stage.fill(topic)

    one = stage.admin("updateTopicPerm", "-t", topic, "-b", cluster.broker_addresses[0], "-p", "4")
    assert f"from 6 to 4 in {cluster.broker_addresses[0]}" in one.stdout
    assert [row["perm"] for row in stage.records("admin", "topicRoute", "-t", topic, "-l")] == [4, 6]
    assert stage.admin("updateTopicPerm", "-t", topic, "-c", "DefaultCluster", "-p", "2").exit_code == 0
    assert isinstance(stage.admin("updateTopicPerm", "-t", topic, "-p", "4").exception, ConfigError)
    assert stage.admin("updateTopicPerm", "-t", topic, "-b", "127.0.0.1:1", "-p", "4").exit_code == 3


def test_the_order_of_a_topic_is_put_shown_and_deleted(stage: AdminStage, topic: str) -> None:
    words = ("updateOrderConf", "-t", topic)

    assert stage.admin(*words, "-m", "get").exit_code == 3
    assert stage.admin(*words, "-m", "put", "-v", "broker-a:4").exit_code == 0
    assert f"topic=[{topic}], orderConf=[broker-a:4]" in stage.admin(*words, "-m", "get").stdout
    assert stage.admin(*words, "-m", "delete").exit_code == 0
    assert stage.admin(*words, "-m", "get").exit_code == 3


def test_queues_are_shared_as_members_would(stage: AdminStage, topic: str) -> None:
    stage.fill(topic)

    rows = stage.records("admin", "allocateMQ", "-t", topic, "-i", "10.0.0.2,10.0.0.1,10.0.0.3")

    assert [(row["member"], row["count"]) for row in rows] == [
        ("10.0.0.1", 2),
        ("10.0.0.2", 1),
        ("10.0.0.3", 1),
    ]


def test_flows_have_topics_groups_and_lag(stage: AdminStage, topic: str, group: str) -> None:
    stage.fill(topic, 8)
    stage.commit(topic, group, 1)

    (row,) = stage.records("admin", "statsAll", "-t", topic)

    assert (row["group"], row["lag"]) == (group, 4)
    assert stage.admin("statsAll", "-a", "-t", topic).exit_code == 0


# Groups --------------------------------------------------------------------------------------------------


def test_the_progress_of_a_group_is_shown_queue_by_queue(stage: AdminStage, topic: str, group: str) -> None:
    stage.fill(topic, 8)
    stage.commit(topic, group, 1)

    shown = stage.admin("consumerProgress", "-g", group).stdout.splitlines()

    assert shown[-1] == "Diff Total: 4"
    assert [line.split()[1:5] for line in shown[1:5]] == [
        ["broker-a", "0", "2", "1"],
        ["broker-a", "1", "2", "1"],
        ["broker-b", "0", "2", "1"],
        ["broker-b", "1", "2", "1"],
    ]
    assert stage.admin("consumerProgress", "-g", "nobody").exit_code == 3


@pytest.mark.usefixtures("member")
def test_all_groups_are_shown_in_lines(stage: AdminStage, group: str) -> None:
    rows = {row["group"]: row for row in stage.records("admin", "consumerProgress")}

    assert rows[group]["members"] == 1
    assert rows[group]["type"] == "PUSH"


@pytest.mark.usefixtures("member")
def test_queues_are_shown_with_their_members(stage: AdminStage, topic: str, group: str) -> None:
    rows = stage.records("admin", "consumerProgress", "-g", group, "-s", "true")

    assert [bool(row["client"]) for row in rows if row["topic"] == topic] == [True] * 4


def test_members_are_listed_with_their_subscriptions(
    stage: AdminStage, member: str, topic: str, group: str
) -> None:
    shown = stage.admin("consumerConnection", "-g", group).stdout

    assert member in shown
    assert f"  {topic}  *" in shown
    assert stage.admin("consumerConnection", "-g", "nobody").exit_code == 3


def test_members_say_how_far_they_are(stage: AdminStage, member: str, topic: str, group: str) -> None:
    rows = stage.records("admin", "getConsumerStatus", "-g", group, "-t", topic)

    assert {row["client_id"] for row in rows} == {member}
    assert stage.admin("consumerStatus", "-g", group).exit_code == 0


def test_producers_are_listed_by_group_and_by_broker(
    cluster: ThreadCluster, stage: AdminStage, topic: str
) -> None:
    stage.fill(topic, 4)
    with Producer("shop", cluster.namesrv_address) as producer:
        for _ in range(4):
            producer.send(Message(topic, b"x"))
        eventually(lambda: stage.admin("producerConnection", "-g", "shop", "-t", topic).exit_code == 0)
        (row,) = stage.records("admin", "producerConnection", "-g", "shop", "-t", topic)

        def is_shown_by(address: str) -> bool:
            rows = stage.records("admin", "producer", "-b", address)
            return ("shop", row["client_id"]) in {(one["group"], one["client_id"]) for one in rows}

        # It tells one broker after the other that it is there.
        for address in cluster.broker_addresses:
            eventually(lambda address=address: is_shown_by(address))

    assert row["language"] == "PYTHON"
    assert stage.admin("producerConnection", "-g", "nobody", "-t", topic).exit_code == 3


def test_a_group_is_created_shown_and_deleted(cluster: ThreadCluster, stage: AdminStage, group: str) -> None:
    made = stage.admin("updateSubGroup", "-g", group, "-c", "DefaultCluster", "-r", "5", "-d", "true")
    assert made.stdout.count(f"create subscription group {group} to ") == 2
    rows = stage.records("admin", "getConsumerConfig", "-g", group)
    assert [(row["broker"], row["retryMaxTimes"]) for row in rows] == [("broker-a", 5), ("broker-b", 5)]
    assert "retryMaxTimes" in stage.admin("getConsumerConfig", "-g", group).stdout

    on_one = stage.admin("deleteSubGroup", "-g", group, "-b", cluster.broker_addresses[0])
    assert on_one.exit_code == 0
    assert len(stage.records("admin", "getConsumerConfig", "-g", group)) == 1
    assert stage.admin("deleteSubGroup", "-g", group, "-c", "DefaultCluster", "-r", "true").exit_code == 0
    assert stage.admin("getConsumerConfig", "-g", group).exit_code == 3


def test_a_group_has_the_settings_of_5x(stage: AdminStage, group: str) -> None:
    policy = '{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":1000,"max":60000,"multiplier":3}}'
    update = ("updateSubGroup", "-g", group, "-c", "DefaultCluster")

    made = stage.admin(*update, "-o", "true", "-p", policy, "--attributes", "+priority.factor=40")
    rows = stage.records("admin", "getConsumerConfig", "-g", group)
    removed = stage.admin(*update, "--attributes", "-priority.factor")
    refused = stage.admin(*update, "--attributes", "+priority.factor=101")

    assert made.exit_code == 0, made.output
    assert [(row["consumeMessageOrderly"], row["attributes"]) for row in rows] == [
        (True, {"priority.factor": "40"})
    ] * 2
    assert rows[0]["groupRetryPolicy"]["exponentialRetryPolicy"]["multiplier"] == 3
    assert removed.exit_code == 0
    assert (
        not {"attributes", "consumeMessageOrderly"}
        & stage.records("admin", "getConsumerConfig", "-g", group)[0].keys()
    )
    assert "value is not in range(0, 100)" in refused.output


def test_the_type_of_a_topic_is_set_and_refused(stage: AdminStage, topic: str) -> None:
    update = ("updateTopic", "-t", topic, "-c", "DefaultCluster", "-a")

    made = stage.admin(*update, "+message.type=FIFO")
    refused = stage.admin(*update, "+message.type=LATER")

    assert made.exit_code == 0, made.output
    assert "value is not in set" in refused.output


def test_a_group_is_told_to_pop(stage: AdminStage, topic: str, group: str) -> None:
    stage.admin("updateTopic", "-t", topic, "-c", "DefaultCluster")
    command = ("setConsumeMode", "-t", topic, "-g", group, "-c", "DefaultCluster")

    made = stage.admin(*command, "-m", "POP", "-q", "2")

    assert made.stdout.count("set consume mode to ") == 2
    assert stage.admin(*command, "-m", "BOTH").exit_code == 2
    assert "not exist" in stage.admin("setConsumeMode", "-t", "nowhere", *command[3:], "-m", "POP").output


def test_a_brokers_groups_are_shown_with_their_lag(
    cluster: ThreadCluster, stage: AdminStage, topic: str, group: str
) -> None:
    stage.fill(topic, 8)
    stage.admin("updateSubGroup", "-g", group, "-c", "DefaultCluster")
    stage.commit(topic, group, 1)

    rows = stage.records("admin", "brokerConsumeStats", "-b", cluster.broker_addresses[0], "-l", "1")

    assert [row["lag"] for row in rows if row["group"] == group] == [1, 1]
    assert stage.admin("brokerConsumeStats", "-b", "127.0.0.1:1").exit_code == 4


def test_groups_that_are_behind_are_monitored(
    stage: AdminStage, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.fill(topic, 8)
    stage.admin("updateTopic", "-t", f"%RETRY%{group}", "-c", "DefaultCluster")
    stage.commit(topic, group, 1)

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "pause", stop)
    ended = stage.admin("startMonitoring", "--json")

    assert {json.loads(line)["group"]: json.loads(line)["lag"] for line in ended.stdout.splitlines()}[
        group
    ] == 4


# Brokers and name servers --------------------------------------------------------------------------------


def test_brokers_say_how_they_are(cluster: ThreadCluster, stage: AdminStage) -> None:
    shown = stage.admin("brokerStatus", "-b", cluster.broker_addresses[0]).stdout
    rows = stage.records("admin", "brokerStatus", "-c", "DefaultCluster")

    assert "putTps" in shown
    assert [row["name"] for row in rows] == ["broker-a", "broker-b"]
    assert "bootTimestamp" in rows[0]["values"]


def test_settings_are_shown_and_changed(cluster: ThreadCluster, stage: AdminStage) -> None:
    address = cluster.broker_addresses[0]
    changed = stage.admin("updateBrokerConfig", "-b", address, "-k", "fileReservedTime", "-v", "48")
    assert changed.exit_code == 0
    (row,) = stage.records("admin", "getBrokerConfig", "-b", address)
    assert row["values"]["fileReservedTime"] == "48"
    assert "fileReservedTime" in stage.admin("getBrokerConfig", "-c", "DefaultCluster").stdout

    refused = stage.admin("updateBrokerConfig", "-b", address, "-k", "storePathRootDir", "-v", "/tmp/x")
    assert refused.exit_code == 1
    assert "storePathRootDir" in refused.stderr


@pytest.mark.row("NS-20")
def test_a_name_server_is_added_and_removed_by_a_command(cluster: ThreadCluster, stage: AdminStage) -> None:
    with running_cluster(brokers=0) as other:
        words = ("updateBrokerConfig", "-b", cluster.broker_addresses[0], "-k", "namesrvAddr", "-v")
        both = f"{cluster.namesrv_address};{other.namesrv_address}"
        assert stage.admin(*words, both).exit_code == 0
        with Admin(other.namesrv_address) as admin:
            assert list(admin.cluster().broker_addr_table) == ["broker-a"]
            assert stage.admin(*words, cluster.namesrv_address).exit_code == 0
            assert list(admin.cluster().broker_addr_table) == []


def test_name_servers_settings_are_shown_and_changed(stage: AdminStage) -> None:
    words = ("updateNamesrvConfig", "-k", "orderMessageEnable", "-v")
    assert stage.admin(*words, "true").exit_code == 0
    (row,) = stage.records("admin", "getNamesrvConfig")
    assert row["values"]["orderMessageEnable"] == "true"
    assert stage.admin(*words, "false").exit_code == 0


def test_keys_and_values_are_put_and_deleted(cluster: ThreadCluster, stage: AdminStage) -> None:
    assert stage.admin("updateKvConfig", "-s", "NAMES", "-k", "key", "-v", "value").exit_code == 0
    with Admin(cluster.namesrv_address) as admin:
        assert admin.key_values("NAMES") == {"key": "value"}
        assert stage.admin("deleteKvConfig", "-s", "NAMES", "-k", "key").exit_code == 0
        assert admin.key_values("NAMES") == {}


@pytest.mark.parametrize("command", ["cleanExpiredCQ", "deleteExpiredCommitLog", "cleanUnusedTopic"])
def test_brokers_clean_up(cluster: ThreadCluster, stage: AdminStage, command: str) -> None:
    assert stage.admin(command, "-b", cluster.broker_addresses[0]).exit_code == 0
    assert stage.admin(command, "-c", "DefaultCluster").stdout.count("success") == 2
    assert stage.admin(command, "-b", "127.0.0.1:1").exit_code == 1


def test_entries_of_a_queue_are_shown(cluster: ThreadCluster, stage: AdminStage, topic: str) -> None:
    stage.fill(topic, 8)
    words = ("queryCq", "-t", topic, "-q", "0", "-b", cluster.broker_addresses[0])

    rows = stage.records("admin", *words, "-i", "1", "-c", "5")

    assert [row["index"] for row in rows] == [1]
    assert stage.admin("queryCq", "-t", topic, "-q", "0", "-i", "0").exit_code == 0
    assert stage.admin(*words, "-i", "99").exit_code == 3


def test_a_cluster_is_written_down(stage: AdminStage, topic: str, group: str, tmp_path: Path) -> None:
    stage.fill(topic)
    for name in (group, f"CID_{group}"):
        stage.admin("updateSubGroup", "-g", name, "-c", "DefaultCluster")
    where = ("-c", "DefaultCluster", "-f", str(tmp_path))

    for command in ("exportMetadata", "exportConfigs", "exportMetrics"):
        assert stage.admin(command, *where).exit_code == 0
    assert stage.admin("exportMetadata", *where, "-t").exit_code == 0
    written = {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()}

    assert written["metadata.json"]["topicConfigTable"][topic]["writeQueueNums"] == 4
    assert written["metadata.json"]["subscriptionGroupTable"][group]["retryQueueNums"] == 2
    assert f"CID_{group}" in written["metadata.json"]["subscriptionGroupTable"]
    assert not {"TBW102", "broker-a", "SELF_TEST_TOPIC"} & set(written["metadata.json"]["topicConfigTable"])
    assert written["configs.json"]["clusterScale"]["masterBrokerSize"] == 2
    assert set(written["metrics.json"]["evaluateReport"]) == {"broker-a", "broker-b"}
    assert set(written) == {"metadata.json", "configs.json", "metrics.json", "topic.json"}


# Messages ------------------------------------------------------------------------------------------------


def test_a_message_is_shown_by_its_ids(stage: AdminStage, topic: str, group: str) -> None:
    sent = stage.fill(topic, 4)[0]
    stage.commit(topic, group, 0)

    by_place = stage.records("admin", "queryMsgById", "-i", sent.offset_message_id)
    by_unique = stage.records("admin", "queryMsgByUniqueKey", "-t", topic, "-i", sent.message_id)
    all_of_it = stage.records("admin", "queryMsgByUniqueKey", "-t", topic, "-i", sent.message_id, "-a")
    shown = stage.admin("queryMsgByUniqueKey", "-t", topic, "-i", sent.message_id).stdout

    assert by_place[0]["message_id"] == sent.message_id
    assert by_place == by_unique == all_of_it
    assert by_place[0]["readers"] == [{"group": group, "track": "NOT_ONLINE"}]
    assert "Message Body:        body 0" in shown
    gone = stage.admin("queryMsgByUniqueKey", "-t", topic, "-i", "7F00000100010CA5D2F80000002A0001")
    assert gone.exit_code == 3


def test_a_message_is_consumed_again_by_a_member(
    stage: AdminStage, member: str, topic: str, group: str
) -> None:
    sent = stage.fill(topic, 4)[0]

    by_place = ("queryMsgById", "-i", sent.offset_message_id, "-g", group, "-d", member)
    by_unique = ("queryMsgByUniqueKey", "-t", topic, "-i", sent.message_id, "-g", group, "-d", member)

    assert stage.records("admin", *by_place)[0]["result"] == "CR_SUCCESS"
    assert "CR_SUCCESS" in stage.admin(*by_unique).stdout


def test_a_message_is_sent_again(stage: AdminStage, topic: str) -> None:
    sent = stage.fill(topic, 1)[0]

    (row,) = stage.records("admin", "queryMsgById", "-i", sent.offset_message_id, "-s", "true")

    (again,) = stage.records("admin", "queryMsgByUniqueKey", "-t", topic, "-i", row["message_id"])
    assert (again["body"], again["tags"], again["keys"]) == ("body 0", "a", ["k0"])
    assert row["message_id"] != sent.message_id


def test_messages_are_found_by_key(stage: AdminStage, topic: str) -> None:
    stage.fill(topic, 4)

    (row,) = stage.records("admin", "queryMsgByKey", "-t", topic, "-k", "k3")

    assert row["body"] == "body 3"
    assert stage.admin("queryMsgByKey", "-t", topic, "-k", "none").exit_code == 3


def test_a_message_is_found_by_its_place(stage: AdminStage, topic: str) -> None:
    sent = stage.fill(topic, 4)[0]
    words = ("queryMsgByOffset", "-t", topic, "-b", sent.queue.broker_name, "-i", str(sent.queue.queue_id))

    (row,) = stage.records("admin", *words, "-o", str(sent.queue_offset))

    assert row["message_id"] == sent.message_id
    assert stage.admin(*words, "-o", "99").exit_code == 3


def test_messages_are_printed(stage: AdminStage, topic: str) -> None:
    stage.fill(topic, 8)

    rows = stage.records("admin", "printMsg", "-t", topic, "-s", "a")
    lines = stage.admin("printMsg", "-t", topic, "-b", "1h", "-e", "now").stdout.splitlines()

    assert {row["body"] for row in rows} == {f"body {at}" for at in range(0, 8, 2)}
    assert len(lines) == 8
    assert all("BODY: body" in line for line in lines)
    assert "BODY" not in stage.admin("printMsg", "-t", topic, "-d", "false").stdout
    assert stage.admin("printMsg", "-t", topic, "-b", "yesterday").exit_code == 2


def test_messages_of_a_queue_are_printed_and_counted_by_tag(stage: AdminStage, topic: str) -> None:
    stage.fill(topic, 8, queues=1)
    words = ("printMsgByQueue", "-t", topic, "-a", "broker-a", "-i", "0")

    assert len(stage.admin(*words, "-p", "true").stdout.splitlines()) == 4
    assert sum(row["count"] for row in stage.records("admin", *words, "-f", "true")) == 4


def test_messages_are_consumed_and_no_progress_changes(stage: AdminStage, topic: str, group: str) -> None:
    stage.fill(topic, 8)
    stage.commit(topic, group, 0)

    rows = stage.records("admin", "consumeMessage", "-t", topic, "-g", group, "-c", "3")
    one = ("consumeMessage", "-t", topic, "-b", "broker-a", "-i", "0", "-o", "1")

    assert len(rows) == 3
    assert [row["offset"] for row in stage.records("admin", *one)] == [1]
    assert set(stage.progress(topic, group).values()) == {0}
    assert isinstance(stage.admin("consumeMessage", "-t", topic, "-i", "0").exception, ConfigError)


def test_an_id_says_what_is_in_it(stage: AdminStage, topic: str) -> None:
    sent = stage.fill(topic, 1)[0]

    from typer.testing import CliRunner

    words = ["admin", "DecodeMessageId", "-i", sent.offset_message_id, "--json"]
    record = json.loads(CliRunner().invoke(app, words).stdout)

    assert record["as_place"]["host"] == "127.0.0.1"
    assert CliRunner().invoke(app, ["admin", "DecodeMessageId", "-i", "no"]).exit_code == 1


def test_a_traced_message_tells_its_life(stage: AdminStage, topic: str) -> None:
    stage.fill(topic, 1)
    (sent,) = stage.records("admin", "sendMessage", "-t", topic, "-p", "traced", "-m", "true")

    eventually(lambda: stage.admin("queryMsgTraceById", "-i", sent["message_id"]).exit_code == 0)
    (row,) = stage.records("admin", "queryMsgTraceById", "-i", sent["message_id"])

    assert (row["type"], row["status"], row["topic"]) == ("Pub", "success", topic)
    assert stage.admin("queryMsgTraceById", "-i", "7F00000100010CA5D2F80000002A0001").exit_code == 3


# Sending -------------------------------------------------------------------------------------------------


def test_a_message_is_sent_to_a_queue(stage: AdminStage, topic: str) -> None:
    stage.fill(topic, 1)
    words = ("sendMessage", "-t", topic, "-p", "hello", "-k", "key", "-c", "tag")

    (row,) = stage.records("admin", *words, "-b", "broker-b", "-i", "1")

    assert (row["broker"], row["queue"], row["status"]) == ("broker-b", 1, "SEND_OK")
    (found,) = stage.records("admin", "queryMsgByKey", "-t", topic, "-k", "key")
    assert (found["body"], found["tags"]) == ("hello", "tag")
    assert isinstance(stage.admin(*words, "-i", "1").exception, ConfigError)


def test_sends_are_timed(stage: AdminStage, topic: str) -> None:
    stage.fill(topic, 1)

    shown = stage.admin("checkMsgSendRT", "-t", topic, "-a", "5", "-s", "64").stdout.splitlines()

    assert len(shown) == 7
    assert shown[-1].startswith("Avg RT: ")
    assert {line.split()[0] for line in shown[1:6]} == {"broker-a", "broker-b"}


def test_sends_to_a_broker_are_timed(stage: AdminStage) -> None:
    shown = stage.admin("sendMsgStatus", "-b", "broker-a", "-c", "3").stdout.splitlines()

    assert len(shown) == 3
    assert all(line.startswith("rt=") and "SEND_OK" in line for line in shown)


def test_sends_to_all_brokers_are_timed(stage: AdminStage) -> None:
    rows = stage.records("admin", "clusterRT", "-a", "3", "--once")
    line = stage.admin("clusterRT", "-a", "2", "--once", "-p", "true", "-m", "room").stdout

    assert [(row["broker"], row["sent"], row["failed"]) for row in rows] == [
        ("broker-a", 3, 0),
        ("broker-b", 3, 0),
    ]
    assert "|room|DefaultCluster|broker-a|" in line
