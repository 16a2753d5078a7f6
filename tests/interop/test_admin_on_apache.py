"""Every command that only looks, on one of Apache's clusters, and some that change topics and groups.

A Java machine takes its time on a busy machine: everything that waits does so for minutes before it fails.
"""

import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from access_stage import OPERATOR, OPERATOR_SECRET, write_accounts
from admin_looks import LOOKS, PATIENCE_S, Look, check, scene
from admin_stage import AdminStage
from harness.missing import unavailable
from harness.servers import Cluster, start_apache
from harness.toolchains import Unavailable

from pyromq import Admin, ConsumeFrom, PushConsumer
from pyromq.client.plans.admin.offset_changes import GroupOnline, Target, To
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(1_200)]

_numbers = itertools.count(1)


@pytest.fixture
def apache(running: Callable[[str], Cluster]) -> Cluster:
    return running("apache-4.9")


@pytest.fixture
def stage(apache: Cluster) -> AdminStage:
    return AdminStage(apache.name_server)


@pytest.fixture
def topic() -> str:
    return f"administered-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def group() -> str:
    return f"readers-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def member(apache: Cluster, stage: AdminStage, topic: str, group: str) -> Iterator[list[str]]:
    """A member of the group that has read 8 messages of the topic; what it reads."""
    stage.fill(topic, 8)
    seen: list[str] = []
    lock = threading.Lock()

    def take(message: object) -> None:
        with lock:
            seen.append(message.body.decode())  # type: ignore[attr-defined]

    with PushConsumer(
        group,
        apache.name_server,
        listener=take,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        persist_consumer_offset_interval=500,
    ) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: len(seen) == 8, PATIENCE_S)
        eventually(lambda: set(stage.progress(topic, group).values()) == {4}, PATIENCE_S)
        yield seen


@pytest.fixture(scope="module")
def played(
    running: Callable[[str], Cluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """What there is to see, once for all commands that look."""
    apache = running("apache-4.9")
    stage, address = AdminStage(apache.name_server), apache.brokers["broker-a"]
    with scene(stage, f"seen-{os.getpid()}", address=address, can_delay=False) as found:
        yield found | {"folder": str(tmp_path_factory.mktemp("exported"))}


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_a_command_that_looks_shows_what_is_there(
    look: Look, played: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status = look.status if look.status_on_apache is None else look.status_on_apache
    check(look, played, status, monkeypatch)


def test_accounts_have_versions_on_brokers_with_access_control(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_accounts(tmp_path / "home/conf")
    monkeypatch.setenv("PYROMQ_ACCESS_KEY", OPERATOR)
    monkeypatch.setenv("PYROMQ_SECRET_KEY", OPERATOR_SECRET)
    with ExitStack() as closing:
        try:
            apache = start_apache("apache-4.9", tmp_path, closing, aclEnable="true")
        except Unavailable as error:
            unavailable(error)
        stage = AdminStage(apache.name_server)

        (row,) = stage.records("admin", "clusterAclConfigVersion", "-c", "DefaultCluster")

        assert stage.admin("clusterAclConfigVersion", "-c", "DefaultCluster").exit_code == 0
    assert (row["broker"], row["version"]) == ("broker-a", 0)
    assert row["file"].endswith("plain_acl.yml")


def test_what_is_not_there_ends_with_3(stage: AdminStage) -> None:
    for words in (
        ("topicStatus", "-t", "nowhere"),
        ("consumerConnection", "-g", "nobody"),
        ("getConsumerConfig", "-g", "nobody"),
        ("updateOrderConf", "-t", "nowhere", "-m", "get"),
        ("queryMsgTraceById", "-i", "7F00000100010CA5D2F80000002A0001"),
    ):
        assert stage.admin(*words).exit_code == 3, words


def test_topics_and_groups_are_made_and_deleted(stage: AdminStage, topic: str, group: str) -> None:
    assert stage.run("topic", "create", topic, "--queues", "2").exit_code == 0
    assert stage.run("topic", "allow", topic, "read").exit_code == 0
    assert stage.run("group", "create", group).exit_code == 0
    assert stage.run("group", "show", group).exit_code == 0
    assert stage.run("group", "delete", group, "--yes").exit_code == 0
    assert stage.run("topic", "delete", topic, "--yes").exit_code == 0
    assert stage.run("topic", "show", topic).exit_code == 3


def test_a_group_without_members_is_reset(stage: AdminStage, topic: str, group: str) -> None:
    stage.fill(topic, 8)
    stage.commit(topic, group, 1)

    for words, after in (
        (("--to", "last"), 4),
        (("--to", "2"), 2),
        (("--time", "1h"), 0),
        (("--time", "+1h"), 4),
        (("--to", "first"), 0),
    ):
        rows = stage.records("group", "reset", group, "-t", topic, *words, "--yes")

        assert {row["now"] for row in rows} == {after}, words
    assert stage.admin("cloneGroupOffset", "-s", group, "-d", f"{group}-2", "-t", topic).exit_code == 0


def test_members_are_told_a_time_and_nothing_else(
    apache: Cluster, stage: AdminStage, member: list[str], topic: str, group: str
) -> None:
    with Admin(apache.name_server) as admin, pytest.raises(GroupOnline, match="stop them"):
        admin.reset_offsets(group, topic, Target(To.OFFSET, 2))
    member.clear()

    done = [
        json.loads(line)
        for line in stage.run(
            "group", "reset", group, "-t", topic, "--to", "first", "--yes", "--json"
        ).stdout.splitlines()
    ]

    assert {row["after"] for row in done} == {0}
    eventually(lambda: len(member) == 8, PATIENCE_S)
