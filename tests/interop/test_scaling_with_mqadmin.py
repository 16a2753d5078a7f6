"""Apache's mqadmin makes our cluster larger and smaller, and our commands do it with Apache's."""

import itertools
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from harness.missing import unavailable
from harness.servers import Cluster, apache_home
from harness.toolchains import JVM, Unavailable, java_classpath, tool
from typer.testing import CliRunner

from pyromq import Admin, Message, Producer, PullConsumer, PyroError
from pyromq.cli.main import app
from pyromq.codes import Perm
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

PATIENCE_S = 60
_numbers = itertools.count(1)

Mqadmin = Callable[..., str]


@pytest.fixture
def mqadmin(tmp_path: Path) -> Mqadmin:
    """Apache's tools of 4.9, as an operator types them."""
    try:
        classpath = java_classpath("server-4.9")
    except Unavailable as error:
        unavailable(error)
    environment = apache_home(tmp_path)
    (tmp_path / "home/conf/logback_tools.xml").write_text(
        '<configuration><root level="OFF"/></configuration>'
    )

    def run(*words: str) -> str:
        ended = subprocess.run(
            [
                *(tool("java"), *JVM, f"-Duser.home={tmp_path}", "-cp", classpath),
                "org.apache.rocketmq.tools.command.MQAdminStartup",
                *words,
            ],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        return ended.stdout + ended.stderr

    return run


@pytest.fixture
def topic() -> str:
    return f"scaled-{os.getpid()}-{next(_numbers)}"


def perms(cluster: Cluster, topic: str) -> dict[str, int]:
    with Admin(cluster.name_server) as admin:
        return {queues.broker_name: queues.perm for queues in admin.route(topic).queue_datas}


def has_route(cluster: Cluster, topic: str) -> bool:
    try:
        return bool(perms(cluster, topic))
    except PyroError:
        return False


def pyromq_admin(cluster: Cluster, *words: str) -> Result:
    return CliRunner().invoke(app, ["admin", *words, "-n", cluster.name_server])


@pytest.mark.row("AD-06", "AD-07")
def test_mqadmin_adds_a_broker_to_a_topic_and_takes_one_out_of_the_routes(
    running: Callable[[str], Cluster], mqadmin: Mqadmin, topic: str
) -> None:
    ours = running("separate")
    where = ("-n", ours.name_server)

    created = mqadmin("updateTopic", *where, "-b", ours.brokers["broker-b"], "-t", topic)

    assert f"create topic to {ours.brokers['broker-b']} success." in created
    with Admin(ours.name_server) as admin:
        (queues,) = admin.route(topic).queue_datas
    assert (queues.broker_name, queues.read_queue_nums, queues.write_queue_nums) == ("broker-b", 8, 8)

    wiped = mqadmin("wipeWritePerm", *where, "-b", "broker-b")

    assert f"wipe write perm of broker[broker-b] in name server[{ours.name_server}] OK" in wiped
    assert perms(ours, topic) == {"broker-b": Perm.READ}

    given = mqadmin("addWritePerm", *where, "-b", "broker-b")

    assert f"add write perm of broker[broker-b] in name server[{ours.name_server}] OK" in given
    assert perms(ours, topic) == {"broker-b": Perm.READ | Perm.WRITE}


@pytest.mark.row("AD-06")
def test_mqadmin_lists_our_cluster_and_creates_a_topic_on_all_of_it(
    running: Callable[[str], Cluster], mqadmin: Mqadmin, topic: str
) -> None:
    ours = running("separate")

    listed = mqadmin("clusterList", "-n", ours.name_server)
    mqadmin("updateTopic", "-n", ours.name_server, "-c", "DefaultCluster", "-t", topic, "-w", "4", "-r", "4")

    rows = [line.split()[:4] for line in listed.splitlines() if line.startswith("DefaultCluster")]
    assert rows == [["DefaultCluster", name, "0", address] for name, address in sorted(ours.brokers.items())]
    assert set(perms(ours, topic)) == set(ours.brokers)


@pytest.mark.row("AD-07")
def test_our_commands_drain_apaches_broker(running: Callable[[str], Cluster], topic: str) -> None:
    """It is the only broker there, so the drain has to be forced; and it is undone for the other tests."""
    apache = running("apache-4.9")
    ((name, address),) = apache.brokers.items()
    created = pyromq_admin(apache, "updateTopic", "-t", topic, "-b", address, "-w", "2", "-r", "2")
    assert created.exit_code == 0, created.output
    # On a busy machine the name server may know the topic later than the broker.
    eventually(lambda: has_route(apache, topic), PATIENCE_S, what="the topic has a route")
    with (
        Producer("senders", apache.name_server) as producer,
        PullConsumer(f"readers-of-{topic}", apache.name_server) as consumer,
    ):
        first, second = sorted(consumer.queues(topic))
        for queue in (first, second) * 2:
            producer.send(Message(topic, b"x"), queue=queue)
        # Apache's broker answers before its queues have a message.
        for queue in (first, second):
            eventually(lambda queue=queue: consumer.max_offset(queue) >= 2, PATIENCE_S, what=str(queue))
        consumer.commit(first, consumer.max_offset(first))
        consumer.commit(second, 0)
        # What was answered late was sent twice.
        unread = consumer.max_offset(second)

        def drained(*more: str) -> Result | None:
            # A topic that the broker makes by itself (a group's retries) gives the permission back.
            result = pyromq_admin(apache, "drain", name, "--no-wait", "--json", *more)
            return result if perms(apache, topic) == {name: Perm.READ} else None

        refused = pyromq_admin(apache, "drain", name, "--no-wait")
        try:
            looked = eventually(lambda: drained("--force"), PATIENCE_S, what="nobody may write")
            consumer.commit(second, consumer.max_offset(second))
            # Once the permission is gone nothing has to be forced.
            again = eventually(lambda: drained("--force") and drained(), PATIENCE_S, what="all is read")
        finally:
            undone = pyromq_admin(apache, "drain", name, "--undo")

    group = f"readers-of-{topic}"
    assert topic in str(refused.exception)
    assert _unread(looked, group) == {topic: unread}
    assert _unread(again, group) == {topic: 0}
    assert undone.exit_code == 0
    assert perms(apache, topic) == {name: Perm.READ | Perm.WRITE}


def _unread(result: Result, group: str) -> dict[str, int]:
    look = json.loads(result.stdout.splitlines()[-1])
    return {one["topic"]: one["count"] for one in look["unread"] if one["group"] == group}
