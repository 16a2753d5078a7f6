"""`pyromq topic`, `group`, `message` and `cluster`, and accounts, as they are typed."""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from access_stage import OPERATOR, OPERATOR_SECRET, SHOP, SHOP_SECRET, write_accounts
from admin_stage import AdminStage
from typer.testing import CliRunner

from pyromq.cli.main import app
from pyromq.cli.program import main
from pyromq.testing.cluster import ThreadCluster, running_cluster

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster(2) as cluster:
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


@pytest.mark.row("AD-10")
def test_a_topic_lives_from_create_to_delete(stage: AdminStage, topic: str, group: str) -> None:
    created = stage.run("topic", "create", topic, "--queues", "3")
    assert created.stdout.count(f"{topic} is on ") == 2
    stage.fill(topic, 6, queues=3)
    stage.commit(topic, group, 0)

    (row,) = [one for one in stage.records("topic", "list") if one["topic"] == topic]
    shown = stage.run("topic", "show", topic).stdout

    assert (row["brokers"], row["write_queues"], row["messages"]) == (["broker-a", "broker-b"], 6, 6)
    assert f"read by {group}" in shown
    assert stage.run("topic", "create", topic, "--queues", "3", "--type", "delay").exit_code == 0
    assert "expected one of" in str(stage.run("topic", "create", topic, "--type", "urgent").exception)
    assert {"topic": topic} in stage.records("topic", "list", "--names")
    assert stage.run("topic", "allow", topic, "read").exit_code == 0
    assert {one["perm"] for one in stage.records("admin", "topicRoute", "-t", topic, "-l")} == {4}
    assert stage.records("topic", "rates", topic)[0]["topic"] == topic
    assert stage.run("topic", "delete", topic, "--yes").exit_code == 0
    assert stage.run("topic", "show", topic).exit_code == 3
    assert stage.run("topic", "delete", topic, "--yes").exit_code == 3


def test_a_topic_is_shown_with_the_type_of_its_messages_on_each_broker(stage: AdminStage, topic: str) -> None:
    stage.run("topic", "create", topic, "--queues", "1")
    (plain, _) = stage.records("topic", "show", topic)
    stage.run("topic", "create", topic, "--queues", "1", "--type", "fifo")

    rows = [line for line in stage.run("topic", "show", topic).stdout.splitlines() if "0=" in line]

    assert plain["type"] == "normal"
    assert [line.split()[-1] for line in rows] == ["fifo", "fifo"]
    assert {one["type"] for one in stage.records("topic", "show", topic)} == {"fifo"}
    # mqadmin's view of the same is as it was.
    assert "type" not in stage.records("admin", "topicStatus", "-t", topic)[0]


def test_an_ordered_topic_is_created_on_one_broker(
    cluster: ThreadCluster, stage: AdminStage, topic: str
) -> None:
    words = ("topic", "create", topic, "--ordered", "--broker", cluster.broker_addresses[1])

    assert stage.run(*words).exit_code == 0
    assert "broker-b:8" in stage.admin("updateOrderConf", "-t", topic, "-m", "get").stdout


def test_a_group_lives_from_create_to_delete(stage: AdminStage, topic: str, group: str) -> None:
    assert stage.run("group", "create", group, "--retries", "3").exit_code == 0
    stage.fill(topic, 8)
    stage.commit(topic, group, 1)

    (row,) = [one for one in stage.records("group", "list") if one["group"] == group]

    assert (row["members"], row["lag"], row["version"]) == (0, 4, "OFFLINE")
    assert "Diff Total: 4" in stage.run("group", "lag", group).stdout
    assert len(stage.records("group", "lag", group, "-t", topic, "--members")) == 4
    assert {one["retryMaxTimes"] for one in stage.records("group", "show", group)} == {3}
    assert stage.run("group", "create", group, "--fifo").exit_code == 0
    assert {one["consumeMessageOrderly"] for one in stage.records("group", "show", group)} == {True}
    assert stage.run("group", "create", group).exit_code == 0
    assert "consumeMessageOrderly" not in stage.records("group", "show", group)[0]
    assert stage.run("group", "members", group).exit_code == 3
    assert stage.run("group", "delete", group, "--yes").exit_code == 0
    assert stage.run("group", "show", group).exit_code == 3
    assert stage.run("group", "lag", group).exit_code == 3


def test_messages_are_found(stage: AdminStage, topic: str) -> None:
    sent = stage.fill(topic, 8)[3]

    for message_id in (sent.message_id, sent.offset_message_id):
        assert stage.records("message", "show", topic, message_id)[0]["body"] == "body 3"
    queue = f"{sent.queue.broker_name}:{sent.queue.queue_id}"
    assert stage.records("message", "at", topic, queue, str(sent.queue_offset))[0]["body"] == "body 3"
    assert [one["body"] for one in stage.records("message", "search", topic, "--key", "k3")] == ["body 3"]
    assert len(stage.records("message", "search", topic, "--since", "1h", "--tags", "a")) == 4
    assert len(stage.records("message", "search", topic, "--limit", "5")) == 5
    assert stage.run("message", "search", topic, "--until", "1h").exit_code == 3
    assert stage.run("message", "show", topic, "7F00000100010CA5D2F80000002A0001").exit_code == 3
    assert stage.run("message", "at", topic, "0", "0").exit_code == 2


def test_the_cluster_is_shown_and_set(cluster: ThreadCluster, stage: AdminStage) -> None:
    address = cluster.broker_addresses[1]

    assert [one["broker_name"] for one in stage.records("cluster", "list")] == ["broker-a", "broker-b"]
    assert stage.records("cluster", "status", "-b", address)[0]["name"] == "broker-b"
    assert stage.run("cluster", "set", "fileReservedTime", "36", "-b", address).exit_code == 0
    values = {one["name"]: one["values"] for one in stage.records("cluster", "settings")}
    assert values["broker-b"]["fileReservedTime"] == "36"
    assert values["broker-a"]["fileReservedTime"] != "36"
    assert "listenPort" in stage.records("cluster", "settings", "--name-servers")[0]["values"]
    assert stage.run("cluster", "set", "noSuchSetting", "1").exit_code == 1


def test_shells_complete_commands() -> None:
    words = {"_PYROMQ_COMPLETE": "complete_bash", "COMP_WORDS": "pyromq admin topicS", "COMP_CWORD": "2"}
    ended = CliRunner().invoke(app, [], env=words, prog_name="pyromq")

    assert ended.stdout.split() == ["topicStatus"]


def completed(line: str) -> list[str]:
    """Return what a shell offers for the last word of a line."""
    words = {
        "_PYROMQ_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    return CliRunner().invoke(app, [], env=words, prog_name="pyromq").stdout.split()


def test_shells_complete_topics_of_the_name_server(stage: AdminStage, topic: str) -> None:
    stage.fill(topic, 1)

    assert topic in completed(f"pyromq topic show -n {stage.name_server} {topic}")
    assert "TBW102" not in completed(f"pyromq topic show -n {stage.name_server} ")


def test_shells_complete_groups_with_members_or_without(stage: AdminStage, group: str) -> None:
    assert stage.run("group", "create", group).exit_code == 0

    server = f"-n {stage.name_server}"
    for line in (f"group lag {server}", f"dlq list {server}", f"admin consumerProgress {server} -g"):
        assert group in completed(f"pyromq {line} {group[:4]}")


# What is not there ----------------------------------------------------------------------------------------


def test_a_topic_that_is_not_there_is_told_with_those_that_are_like_it(stage: AdminStage, topic: str) -> None:
    stage.fill(topic, 1)

    for words in (
        *("topic show", "topic rates", "topic delete --yes", "message search", "message search --key 1"),
        *(
            "group lag a-group -t",
            "admin printMsg -t",
            "admin consumeMessage -t",
            "admin queryMsgByKey -k 1 -t",
        ),
    ):
        ended = stage.run(*words.split(), f"{topic}x")

        assert ended.exit_code == 3
        (line,) = ended.stderr.splitlines()
        assert f"there is no topic '{topic}x' at {stage.name_server}; did you mean {topic}" in line
        assert f"a new one: pyromq topic create {topic}x -n {stage.name_server}" in line


def test_what_is_to_be_typed_names_no_server_that_is_asked_anyway(
    stage: AdminStage, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", stage.name_server)

    ended = stage.run("topic", "show", f"{topic}x")

    assert ended.stderr.endswith(f"a new one: pyromq topic create {topic}x\n")


def test_whoever_consumes_a_topic_that_is_not_there_is_told_in_one_line(
    stage: AdminStage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pyromq", "consume", "nobody-has-it", "-n", stage.name_server])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert f"there is no topic 'nobody-has-it' at {stage.name_server}" in line


def test_whoever_resets_a_group_that_nobody_knows_is_warned(
    stage: AdminStage, topic: str, group: str
) -> None:
    stage.fill(topic, 2)
    stage.run("group", "create", group)

    known = stage.run("group", "reset", group, "-t", topic, "--to", "last", "--dry-run")
    unknown = stage.run("group", "reset", f"{group}x", "-t", topic, "--to", "last", "--dry-run")

    assert (known.exit_code, known.stderr) == (0, "")
    assert unknown.exit_code == 0
    assert f"warning: no broker has a group '{group}x'; did you mean {group}" in unknown.stderr


@pytest.mark.parametrize("name", ["", "two words", "x" * 256])
def test_a_group_that_nobody_could_join_is_not_created(stage: AdminStage, name: str) -> None:
    for words in (("group", "create", name), ("admin", "updateSubGroup", "-c", "DefaultCluster", "-g", name)):
        ended = stage.run(*words)

        assert ended.exit_code == 2
        assert "the group's name" in ended.stderr


@pytest.mark.parametrize("name", ["two words", "ä", "x" * 128])
@pytest.mark.parametrize(
    "words", ["produce TOPIC x", "consume TOPIC", "topic create TOPIC", "topic show TOPIC"]
)
def test_a_name_that_no_topic_may_have_is_misuse(
    stage: AdminStage,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    name: str,
) -> None:
    typed = [name if word == "TOPIC" else word for word in words.split()]
    monkeypatch.setattr(sys, "argv", ["pyromq", *typed, "-n", stage.name_server])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert "the topic's name" in capsys.readouterr().err


def test_a_brokers_name_in_place_of_its_address_is_told(stage: AdminStage) -> None:
    for words in ("cluster status -b", "admin brokerStatus -b", "topic create orders --broker"):
        ended = stage.run(*words.split(), "broker-a")

        assert ended.exit_code == 2
        assert "'broker-a' is no address" in ended.stderr


def test_braces_in_what_is_told_are_told(stage: AdminStage) -> None:
    words = ("updateKvConfig", "-s", "SPACE", "-k", "{key}", "-v", "{0} {}")

    ended = stage.admin(*words)

    assert ended.exit_code == 0, ended.output + repr(ended.exception)


def test_a_brokers_address_in_place_of_a_name_servers_is_told(
    cluster: ThreadCluster, stage: AdminStage, topic: str
) -> None:
    address = cluster.broker_addresses[0]
    for words in ("topic list", "cluster list", "group list", f"message search {topic}", "top --once"):
        ended = CliRunner().invoke(app, [*words.split(), "-n", address])

        assert ended.exit_code == 2
        assert f"{address} is no name server, it answers as a broker does" in ended.stderr
    ended = stage.run("cluster", "status", "-b", stage.name_server)
    assert ended.exit_code == 2
    assert f"{stage.name_server} is a name server" in ended.stderr


def test_a_group_that_is_not_there_is_told_with_those_that_are_like_it(
    stage: AdminStage, group: str, topic: str
) -> None:
    stage.fill(topic, 1)
    assert stage.run("group", "create", group).exit_code == 0

    for words in (("group", "show"), ("group", "lag"), ("group", "delete", "--yes")):
        ended = stage.run(*words, f"{group}x")

        assert ended.exit_code == 3
        assert f"did you mean {group}" in ended.stderr
    assert stage.run("group", "clone", f"{group}x", "other", "-t", topic, "--yes").exit_code == 3


def test_a_queue_that_is_not_there_is_told_with_those_that_are(stage: AdminStage, topic: str) -> None:
    stage.fill(topic, 1)

    for words in (
        ("message", "at", topic, "broker-a:9", "0"),
        ("admin", "printMsgByQueue", "-t", topic, "-a", "broker-a", "-i", "9", "-p", "true"),
    ):
        ended = stage.run(*words)

        assert ended.exit_code == 3
        assert "it has broker-a:0 to broker-a:1, broker-b:0 to broker-b:1" in ended.stderr


def test_an_id_that_is_none_is_misuse(stage: AdminStage) -> None:
    assert stage.admin("queryMsgById", "-i", "no-id").exit_code == 2


def test_a_broker_that_does_not_answer_is_no_success(stage: AdminStage) -> None:
    for words in (("admin", "brokerStatus"), ("cluster", "settings")):
        ended = stage.run(*words, "-b", "127.0.0.1:1")

        assert ended.exit_code == 4
        assert "no connection to 127.0.0.1:1: Connection refused\n        is the server up" in ended.stderr


def test_only_topics_of_applications_are_listed_unless_all_are_asked_for(
    stage: AdminStage, topic: str
) -> None:
    stage.fill(topic, 1)

    own = {one["topic"] for one in stage.records("topic", "list")}
    all_of_them = {one["topic"] for one in stage.records("topic", "list", "--all")}

    assert topic in own
    assert not own & {"TBW102", "DefaultCluster", "broker-a", "SCHEDULE_TOPIC_XXXX"}
    assert {topic, "TBW102", "DefaultCluster", "broker-a"} <= all_of_them
    assert "TBW102" not in {one["topic"] for one in stage.records("topic", "rates")}


# Accounts ------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AdminStage]:
    """A broker with access control, and an operator's keys in the environment."""
    folder = write_accounts(tmp_path / "conf")
    with running_cluster(acl_enable=True, acl_folder=str(folder)) as cluster:
        monkeypatch.setenv("PYROMQ_ACCESS_KEY", OPERATOR)
        monkeypatch.setenv("PYROMQ_SECRET_KEY", OPERATOR_SECRET)
        yield AdminStage(cluster.namesrv_address)


def test_accounts_are_changed_and_no_secret_is_shown(guarded: AdminStage, tmp_path: Path) -> None:
    where = ("-c", "DefaultCluster")
    secret = "the-new-secret-42"

    made = guarded.admin("updateAclConfig", *where, "-a", "new-shop", "-s", secret, "-t", "orders=PUB")
    listed = guarded.records("admin", "clusterAclConfigVersion", *where)
    white = guarded.admin("updateGlobalWhiteAddr", *where, "-g", "10.10.103.*")
    gone = guarded.admin("deleteAclConfig", *where, "-a", "new-shop")

    assert (made.exit_code, white.exit_code, gone.exit_code) == (0, 0, 0), made.output + white.output
    assert listed[0]["version"] >= 1
    assert secret not in made.output
    assert "10.10.103.*" in (tmp_path / "conf/plain_acl.yml").read_text()
    assert guarded.admin("deleteAclConfig", *where, "-a", "new-shop").exit_code == 1


def test_whoever_is_refused_is_told_what_to_do_and_a_topic_stays_where_it_was(
    guarded: AdminStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert guarded.run("topic", "create", "orders").exit_code == 0
    monkeypatch.setenv("PYROMQ_ACCESS_KEY", SHOP)
    monkeypatch.setenv("PYROMQ_SECRET_KEY", SHOP_SECRET)

    for words in ("topic delete orders --yes", "cluster set fileReservedTime 9"):
        ended = guarded.run(*words.split())
        assert ended.exit_code == 1
        assert "access control says no" in ended.stderr
    assert guarded.records("topic", "list", "--names")[-1] == {"topic": "orders"}
    monkeypatch.delenv("PYROMQ_ACCESS_KEY")
    monkeypatch.delenv("PYROMQ_SECRET_KEY")
    for words in ("cluster list", "cluster status", "top --once"):
        ended = guarded.run(*words.split())
        assert ended.exit_code == 1
        assert "access control says no" in ended.stderr


def test_without_keys_an_operator_is_refused(guarded: AdminStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYROMQ_ACCESS_KEY")
    monkeypatch.delenv("PYROMQ_SECRET_KEY")

    ended = guarded.admin("updateAclConfig", "-c", "DefaultCluster", "-a", "new-shop", "-s", "12345678")

    assert ended.exit_code == 1


def test_a_broker_without_access_control_says_so(stage: AdminStage) -> None:
    ended = stage.admin("clusterAclConfigVersion", "-c", "DefaultCluster")

    assert ended.exit_code == 1
    assert "aclEnable" in ended.stderr
