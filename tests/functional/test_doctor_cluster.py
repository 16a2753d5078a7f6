"""What `pyromq doctor` finds about topics, queues and permissions; and how it is asked and shown."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from access_stage import OPERATOR, OPERATOR_SECRET, write_accounts
from doctor_stage import DoctorStage
from staged_files import StagedFiles
from typer.testing import CliRunner

from pyromq.cli.main import app
from pyromq.doctor.checks import CHECKS, PRODUCTION
from pyromq.testing.cluster import ThreadCluster, running_cluster

_numbers = itertools.count(1)

CLUSTER_CHECKS = (
    "name-servers",
    "addresses",
    "replicas",
    "disks",
    "door",
    "permissions",
    "topics",
    "queues",
    "clocks",
)
ONLY_PRODUCTION = [word for check in PRODUCTION for word in ("--only", check.name)]
ONLY_CLUSTER = [word for check in CLUSTER_CHECKS for word in ("--only", check)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    """Two brokers, for tests with topics of their own."""
    # Whose disk is 10 % full, whatever this machine's is.
    with running_cluster(2, files=StagedFiles()) as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: ThreadCluster) -> DoctorStage:
    return DoctorStage(cluster.namesrv_address)


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


def test_a_healthy_cluster_is_well(stage: DoctorStage, topic: str) -> None:
    stage.typed("topic", "create", topic)

    examined = stage.examine("--topic", topic, *ONLY_CLUSTER)

    assert examined.status == 0
    assert examined.report["well"] is True
    assert examined.found == []
    assert examined.report["could_not"] == []
    assert examined.report["checked"] == {"checks": 9, "name_servers": 1, "brokers": 2, "topics": 1}


def test_all_checks_together_find_nothing_in_a_healthy_cluster(tmp_path: Path) -> None:
    with running_cluster(2, data_dir=tmp_path, files=StagedFiles()) as cluster:
        stage = DoctorStage(cluster.namesrv_address)
        stage.typed("topic", "create", "orders")
        stage.typed("group", "create", "billing")

        ended = stage.typed("doctor", "--watch", "0.2")

    assert ended.exit_code == 0, ended.output
    assert ended.stdout == f"{len(CHECKS)} checks, 1 name server, 2 brokers, 1 topic, 1 group: all is well\n"


def test_a_trial_is_not_fit_for_production_and_each_finding_says_what_to_do(
    stage: DoctorStage, topic: str
) -> None:
    stage.typed("topic", "create", topic, "--queues", "1")

    plain = stage.examine("--topic", topic, *ONLY_CLUSTER)
    examined = stage.examine("--topic", topic, "--production", *ONLY_CLUSTER, *ONLY_PRODUCTION)

    assert (plain.status, examined.status) == (0, 1)
    by_check = {one["check"]: one for one in examined.found}
    assert set(by_check) == {"durability", "spares", "advertised", "auto-create", "metrics"}
    assert all(one["why"] and one["do"] for one in examined.found)
    assert examined.report["could_not"] == []
    assert "add --production" in str(stage.typed("doctor", "--only", "spares").output)


# Topics --------------------------------------------------------------------------------------------------


def test_a_topic_on_one_broker_only_is_found_and_the_advice_evens_it(
    cluster: ThreadCluster, stage: DoctorStage, topic: str
) -> None:
    stage.typed("topic", "create", topic, "--queues", "3", "--broker", cluster.broker_addresses[0])

    examined = stage.examine("--topic", topic)

    assert examined.status == 1
    finding = examined.one(f"topic {topic}")
    assert (finding["check"], finding["severity"]) == ("topics", "warning")
    assert "is on broker-a and not on broker-b of cluster DefaultCluster" in finding["message"]
    assert finding["facts"]["missing_on"] == ["broker-b"]

    stage.follow(finding)

    assert stage.examine("--topic", topic).found == []


def test_a_read_only_topic_is_evened_just_so(cluster: ThreadCluster, stage: DoctorStage, topic: str) -> None:
    words = ("-r", "4", "-w", "2", "-p", "4", "-o", "true")
    stage.typed("admin", "updateTopic", "-t", topic, "-b", cluster.broker_addresses[1], *words)

    stage.follow(stage.examine("--topic", topic, "--only", "topics").one(f"topic {topic}"))

    route = stage.typed("admin", "topicRoute", "-t", topic, "-l", "--json").stdout
    shown = [json.loads(line) for line in route.splitlines()]
    assert len({(one["read_queues"], one["write_queues"], one["perm"]) for one in shown}) == 1
    assert len(shown) == 2


def test_many_topics_with_the_same_fault_are_one_finding_with_all_commands(
    cluster: ThreadCluster, stage: DoctorStage, topic: str
) -> None:
    names = [f"{topic}-{at}" for at in range(7)]
    for name in names:
        stage.typed("topic", "create", name, "--queues", "1", "--broker", cluster.broker_addresses[1])
    meant = [word for name in names for word in ("--topic", name)]

    finding = stage.examine("--only", "topics", *meant).one("7 topics")

    assert f"{names[0]}, {names[1]}, {names[2]}, {names[3]}, {names[4]} and 2 more" in finding["message"]
    assert finding["facts"]["topics"] == names
    assert len(finding["facts"]["commands"]) == 7
    assert finding["facts"]["commands"][6].startswith(f"pyromq topic create {names[6]} -n ")
    assert "jq" in finding["do"]


def test_topics_of_brokers_and_groups_may_be_where_they_are(
    cluster: ThreadCluster, stage: DoctorStage
) -> None:
    for name in ("%RETRY%billing", "%DLQ%billing", "broker-a", "RMQ_SYS_TRACE_TOPIC"):
        stage.typed("admin", "updateTopic", "-t", name, "-b", cluster.broker_addresses[0])

    subjects = stage.examine("--only", "topics", "--only", "queues").severities

    assert not [subject for subject in subjects if "%" in subject or "SYS" in subject or "broker" in subject]


def test_a_topic_that_is_nowhere_is_found_when_it_is_asked_for(stage: DoctorStage, topic: str) -> None:
    finding = stage.examine("--topic", topic).one(f"topic {topic}")

    assert (finding["check"], finding["severity"]) == ("topics", "problem")
    stage.follow(finding)
    assert stage.examine("--topic", topic).found == []


# Queues --------------------------------------------------------------------------------------------------


def test_a_topic_with_more_queues_on_one_broker_is_found_and_evened(
    cluster: ThreadCluster, stage: DoctorStage, topic: str
) -> None:
    stage.typed("topic", "create", topic, "--queues", "8")
    stage.typed("topic", "create", topic, "--queues", "2", "--broker", cluster.broker_addresses[1])

    finding = stage.examine("--topic", topic).one(f"topic {topic}")

    assert (finding["check"], finding["severity"]) == ("queues", "warning")
    assert "8 on broker-a, 2 on broker-b" in finding["message"]
    stage.follow(finding)
    assert stage.examine("--topic", topic).found == []


def test_queues_that_are_written_and_not_read_are_a_problem(stage: DoctorStage, topic: str) -> None:
    stage.typed("admin", "updateTopic", "-t", topic, "-c", "DefaultCluster", "-r", "2", "-w", "6")

    finding = stage.examine("--topic", topic).one(f"topic {topic}")

    assert (finding["check"], finding["severity"]) == ("queues", "problem")
    assert "6 to write and 2 to read on broker-a" in finding["message"]
    stage.follow(finding)
    assert stage.examine("--topic", topic).found == []


def test_a_topic_that_is_being_shrunk_is_a_note_and_all_is_well(stage: DoctorStage, topic: str) -> None:
    stage.typed("admin", "updateTopic", "-t", topic, "-c", "DefaultCluster", "-r", "6", "-w", "2")

    examined = stage.examine("--topic", topic)

    assert (examined.status, examined.report["well"]) == (0, True)
    finding = examined.one(f"topic {topic}")
    assert (finding["check"], finding["severity"]) == ("queues", "note")
    stage.follow(finding)


# Permissions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("allowed", "word"), [("read", "written"), ("write", "read")])
def test_a_topic_that_nobody_may_use_is_a_problem(
    stage: DoctorStage, topic: str, allowed: str, word: str
) -> None:
    stage.typed("topic", "create", topic)
    stage.typed("topic", "allow", topic, allowed)

    examined = stage.examine("--topic", topic)

    assert examined.status == 1
    finding = examined.one(f"topic {topic}")
    assert (finding["check"], finding["severity"]) == ("permissions", "problem")
    assert f"may not be {word} on any broker (broker-a, broker-b)" in finding["message"]
    stage.follow(finding)
    assert stage.examine("--topic", topic).found == []


def test_a_topic_that_may_not_be_written_on_one_broker_is_a_warning(
    cluster: ThreadCluster, stage: DoctorStage, topic: str
) -> None:
    stage.typed("topic", "create", topic)
    stage.typed("admin", "updateTopicPerm", "-t", topic, "-p", "4", "-b", cluster.broker_addresses[0])

    finding = stage.examine("--topic", topic).one(f"topic {topic}")

    assert (finding["check"], finding["severity"]) == ("permissions", "warning")
    assert "may not be written on broker-a" in finding["message"]
    stage.follow(finding)
    assert stage.examine("--topic", topic).found == []


def test_a_broker_that_may_not_be_written_is_found(tmp_path: Path) -> None:
    with running_cluster(2, data_dir=tmp_path) as cluster:
        stage = DoctorStage(cluster.namesrv_address)
        stage.typed("cluster", "set", "brokerPermission", "4", "-b", cluster.broker_addresses[0])

        finding = stage.examine("--only", "permissions").one("broker-a")
        assert finding["severity"] == "warning"
        assert "its brokerPermission is 4" in finding["message"]
        assert "broker-b of its cluster can be used" in finding["why"]

        stage.typed("cluster", "set", "brokerPermission", "4", "-b", cluster.broker_addresses[1])
        both = stage.examine("--only", "permissions")
        assert both.severities == {"broker-a": "problem", "broker-b": "problem"}

        for finding in both.found:
            stage.follow(finding)
        assert stage.examine("--only", "permissions").found == []


def test_a_broker_whose_write_permission_was_wiped_is_found(tmp_path: Path) -> None:
    with running_cluster(2, data_dir=tmp_path) as cluster:
        stage = DoctorStage(cluster.namesrv_address)
        stage.typed("admin", "wipeWritePerm", "-b", "broker-b")

        examined = stage.examine("--only", "permissions")

        assert examined.severities == {"broker-b": "warning"}
        assert "its write permission was wiped" in examined.one("broker-b")["message"]
        stage.follow(examined.one("broker-b"))
        assert stage.examine("--only", "permissions").found == []


# How it is asked and shown -------------------------------------------------------------------------------


def test_people_read_the_worst_first_with_commands_in_one_piece(
    cluster: ThreadCluster, stage: DoctorStage, topic: str
) -> None:
    closed = f"{topic}-closed"
    stage.typed("topic", "create", topic, "--broker", cluster.broker_addresses[0])
    stage.typed("topic", "create", closed)
    stage.typed("topic", "allow", closed, "read")

    ended = stage.typed("doctor", "--watch", "0", "--topic", topic, "--topic", closed, *ONLY_CLUSTER)

    assert ended.exit_code == 1
    lines = ended.stdout.splitlines()
    assert lines[0].startswith(f"✗ problem: topic {closed} may not be written")
    assert any(
        line.startswith(f"! warning: topic {topic} is on broker-a and not on broker-b") for line in lines
    )
    command = f"pyromq topic create {topic} -n {cluster.namesrv_address} --queues 8 --broker"
    assert any(f"do:  {command} {cluster.broker_addresses[1]}" in line for line in lines)
    assert any(line.startswith("    why: ") for line in lines)
    assert lines[-1] == "9 checks, 1 name server, 2 brokers, 2 topics: 1 problem, 1 warning"


def test_the_checks_are_listed(stage: DoctorStage) -> None:
    listed = CliRunner().invoke(app, ["doctor", "--list"])
    records = CliRunner().invoke(app, ["doctor", "--list", "--json"]).stdout.splitlines()

    names = [check.name for check in CHECKS]
    assert [line.split()[0] for line in listed.stdout.splitlines()] == names
    assert [json.loads(record)["check"] for record in records] == names


def test_checks_are_chosen_by_name(stage: DoctorStage) -> None:
    assert stage.examine("--only", "disks", "--only", "clocks").report["checked"]["checks"] == 2
    without = [word for check in CHECKS if check.name != "disks" for word in ("--skip", check.name)]
    assert stage.examine(*without).report["checked"]["checks"] == 1


def test_a_check_that_is_none_is_misuse(stage: DoctorStage) -> None:
    ended = stage.typed("doctor", "--only", "weather")

    assert ended.exit_code == 2
    assert "there is no check 'weather'; there are name-servers, addresses" in ended.stderr


def test_no_check_at_all_is_misuse(stage: DoctorStage) -> None:
    ended = stage.typed("doctor", "--only", "clocks", "--skip", "clocks")

    assert ended.exit_code == 2
    assert "no check is left" in ended.stderr


def test_without_a_name_server_the_status_is_4() -> None:
    ended = CliRunner().invoke(app, ["doctor", "-n", "127.0.0.1:1"])

    assert ended.exit_code == 4
    assert "no name server answers (127.0.0.1:1)" in ended.stderr


def test_brokers_that_refuse_to_say_how_they_are_are_a_warning_until_an_account_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(write_accounts(tmp_path / "accounts"))
    with running_cluster(1, files=StagedFiles(), acl_enable=True, acl_folder=folder) as cluster:
        stage = DoctorStage(cluster.namesrv_address)

        refused = stage.examine(*ONLY_CLUSTER)
        assert refused.severities == {"broker-a": "warning"}
        assert "PYROMQ_ACCESS_KEY" in refused.one("broker-a")["do"]
        assert refused.report["could_not"]

        monkeypatch.setenv("PYROMQ_ACCESS_KEY", OPERATOR)
        monkeypatch.setenv("PYROMQ_SECRET_KEY", OPERATOR_SECRET)
        assert stage.examine(*ONLY_CLUSTER).found == []
