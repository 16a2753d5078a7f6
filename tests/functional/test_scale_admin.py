"""`pyromq admin` for a cluster that grows and shrinks, as it is typed, on brokers in this process."""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from pyromq import Admin, Message, Producer, PullConsumer, TransactionProducer, TransactionState
from pyromq.cli.admin import drain_command
from pyromq.cli.admin.operator import Operator
from pyromq.cli.main import app
from pyromq.client.steps import ask, request
from pyromq.codes import Perm, RequestCode
from pyromq.errors import ConfigError, NoRoute
from pyromq.release import VERSION
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.wire.headers.namesrv_headers import GetKvConfig

_numbers = itertools.count(1)

#: Milliseconds until brokers look for transactions: they make a topic for that, and whoever registers a new
#: topic has its write permission again.
NEVER = 24 * 3_600_000

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    """Two brokers, for tests with topics of their own that leave the permissions as they were."""
    with running_cluster(2, transaction_check_interval=NEVER) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: ThreadCluster) -> Run:
    return lambda *words: run(cluster, *words)


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


def run(cluster: ThreadCluster, *words: str) -> Result:
    return CliRunner().invoke(app, ["admin", *words, "-n", cluster.namesrv_address])


def records(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def perms(cluster: ThreadCluster, topic: str) -> dict[str, int]:
    with Admin(cluster.namesrv_address) as admin:
        return {queues.broker_name: queues.perm for queues in admin.route(topic).queue_datas}


def send(cluster: ThreadCluster, topic: str, count: int = 16) -> set[str]:
    """Send messages, and return the names of the brokers that took one."""
    with Producer("senders", cluster.namesrv_address) as producer:
        return {producer.send(Message(topic, b"x")).queue.broker_name for _ in range(count)}


def read_all(cluster: ThreadCluster, topic: str, group: str, *, broker: str | None = None) -> int:
    """Read what is there, on one broker or on all, commit, and return how many messages it was."""
    count = 0
    with PullConsumer(group, cluster.namesrv_address) as consumer:
        for queue in consumer.queues(topic):
            end = consumer.max_offset(queue)
            if broker in (None, queue.broker_name):
                count += end
                consumer.commit(queue, end)
    return count


# updateTopic ---------------------------------------------------------------------------------------------


@pytest.mark.row("AD-06")
def test_a_topic_comes_to_one_broker_with_8_queues(cluster: ThreadCluster, admin: Run, topic: str) -> None:
    ended = admin("updateTopic", "-t", topic, "-b", cluster.broker_addresses[1])

    assert ended.exit_code == 0
    assert f"create topic to {cluster.broker_addresses[1]} success." in ended.stdout
    with Admin(cluster.namesrv_address) as client:
        (queues,) = client.route(topic).queue_datas
    assert (queues.broker_name, queues.read_queue_nums, queues.write_queue_nums) == ("broker-b", 8, 8)


@pytest.mark.row("AD-06", "HA-08")
def test_a_topic_comes_to_all_masters_of_a_cluster(cluster: ThreadCluster, admin: Run, topic: str) -> None:
    ended = admin("updateTopic", "-t", topic, "-c", "DefaultCluster", "-r", "5", "-w", "4", "-p", "4")

    assert ended.exit_code == 0
    with Admin(cluster.namesrv_address) as client:
        found = sorted(client.route(topic).queue_datas, key=lambda one: one.broker_name)
    assert [(one.broker_name, one.read_queue_nums, one.write_queue_nums, one.perm) for one in found] == [
        ("broker-a", 5, 4, Perm.READ),
        ("broker-b", 5, 4, Perm.READ),
    ]


def test_an_ordered_topic_has_its_queues_in_the_name_servers_table(
    cluster: ThreadCluster, admin: Run, topic: str
) -> None:
    admin("updateTopic", "-t", topic, "-b", cluster.broker_addresses[0], "-o", "true", "-w", "3")
    admin("updateTopic", "-t", topic, "-b", cluster.broker_addresses[1], "-o", "true", "-w", "2")

    with PullConsumer("ordered", cluster.namesrv_address) as consumer:
        assert len(consumer.queues(topic)) == 16
    assert order_configuration(cluster, topic) == "broker-a:3;broker-b:2"


def test_a_broker_that_is_not_there_is_told_and_the_status_is_1(admin: Run, topic: str) -> None:
    ended = admin("updateTopic", "-t", topic, "-b", "127.0.0.1:1")

    assert ended.exit_code == 1
    assert "create topic to 127.0.0.1:1 failed" in ended.stderr


def test_one_place_must_be_said(admin: Run, topic: str) -> None:
    for where in ((), ("-b", "127.0.0.1:1", "-c", "DefaultCluster")):
        ended = admin("updateTopic", "-t", topic, *where)

        assert isinstance(ended.exception, ConfigError)


# Write permission ----------------------------------------------------------------------------------------


@pytest.mark.row("AD-07")
def test_a_broker_without_write_permission_is_chosen_by_no_producer(
    cluster: ThreadCluster, admin: Run, topic: str
) -> None:
    admin("updateTopic", "-t", topic, "-c", "DefaultCluster")
    wiped = admin("wipeWritePerm", "-b", "broker-b")

    assert wiped.stdout.startswith(
        f"wipe write perm of broker[broker-b] in name server[{cluster.namesrv_address}] OK, "
    )
    assert send(cluster, topic) == {"broker-a"}
    assert perms(cluster, topic) == {"broker-a": Perm.READ | Perm.WRITE, "broker-b": Perm.READ}

    given = admin("addWritePerm", "-b", "broker-b", "--json")

    assert records(given)[0]["failure"] is None
    assert send(cluster, topic) == {"broker-a", "broker-b"}


def test_a_name_server_that_is_gone_is_told_and_the_others_are_changed(
    cluster: ThreadCluster, topic: str
) -> None:
    run(cluster, "updateTopic", "-t", topic, "-c", "DefaultCluster")
    both = f"127.0.0.1:1;{cluster.namesrv_address}"

    ended = CliRunner().invoke(app, ["admin", "wipeWritePerm", "-b", "broker-b", "-n", both])

    assert ended.exit_code == 1
    assert "name server[127.0.0.1:1] Failed" in ended.stderr
    assert perms(cluster, topic)["broker-b"] == Perm.READ
    assert run(cluster, "addWritePerm", "-b", "broker-b").exit_code == 0


def test_a_name_that_no_broker_has_is_told_with_those_that_there_are(admin: Run) -> None:
    ended = admin("wipeWritePerm", "-b", "broker-x")

    assert isinstance(ended.exception, NoRoute)
    assert "broker-a, broker-b" in str(ended.exception)


def test_the_list_has_every_broker_and_whether_producers_may_choose_it(
    cluster: ThreadCluster, admin: Run, topic: str
) -> None:
    # When this is answered, nothing is left to register of what others did.
    admin("updateTopic", "-t", topic, "-c", "DefaultCluster")
    admin("wipeWritePerm", "-b", "broker-b")
    listed = records(admin("clusterList", "--json"))
    shown = admin("clusterList").stdout.splitlines()
    admin("addWritePerm", "-b", "broker-b")

    assert [
        (one["cluster"], one["broker_name"], one["broker_id"], one["address"], one["is_writable"])
        for one in listed
    ] == [
        ("DefaultCluster", "broker-a", 0, cluster.broker_addresses[0], True),
        ("DefaultCluster", "broker-b", 0, cluster.broker_addresses[1], False),
    ]
    assert shown[0].split()[:2] == ["#Cluster", "Name"]
    assert [line.split()[-2] for line in shown[1:]] == ["yes", "no"]
    # RocketMQ's version is where mqadmin has it; ours is behind all that mqadmin prints.
    assert {line.split()[4] for line in shown[1:]} == {"V4_9_8"}
    assert shown[0].split()[-2:] == ["#Write", "#PyroMQ"]
    assert {line.split()[-1] for line in shown[1:]} == {one["pyromq_version"] for one in listed} == {VERSION}


def test_the_list_of_totals_has_a_line_for_each_broker(admin: Run) -> None:
    assert [line.split()[1] for line in admin("clusterList", "-m").stdout.splitlines()[1:]] == [
        "broker-a",
        "broker-b",
    ]


# drain ---------------------------------------------------------------------------------------------------


@pytest.fixture
def own() -> Iterator[ThreadCluster]:
    """Two brokers of the test's own."""
    with running_cluster(2, transaction_check_interval=NEVER) as cluster:
        yield cluster


def test_a_drain_shows_by_topic_and_group_what_is_unread(own: ThreadCluster) -> None:
    run(own, "updateTopic", "-t", "orders", "-c", "DefaultCluster")
    send(own, "orders")
    read_all(own, "orders", "billing", broker="broker-a")

    ended = run(own, "drain", "broker-b", "--no-wait", "--json")

    assert ended.exit_code == 3
    look = records(ended)[-1]
    assert look["unread"] == [{"topic": "orders", "group": "billing", "count": 8}]
    assert look["unread_count"] == 8
    assert not look["may_stop"]
    assert perms(own, "orders")["broker-b"] == Perm.READ


@pytest.mark.row("AD-07")
def test_a_drain_waits_until_all_is_read_and_then_nothing_is_lost_with_the_broker(
    own: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(own, "updateTopic", "-t", "orders", "-c", "DefaultCluster")
    send(own, "orders")
    read_all(own, "orders", "billing", broker="broker-a")
    waits: list[float] = []

    def read_meanwhile(_: object, seconds: float) -> None:
        waits.append(seconds)
        read_all(own, "orders", "billing", broker="broker-b")

    monkeypatch.setattr(drain_command.Operator, "pause", read_meanwhile)
    ended = run(own, "drain", "broker-b", "--settle", "0")

    assert ended.exit_code == 0
    assert waits == [2.0]
    assert "orders  billing  8" in ended.stdout
    assert "broker-b may be stopped" in ended.stdout
    own.stop_broker("broker-b")
    assert send(own, "orders") == {"broker-a"}


def test_a_group_may_be_left_out(own: ThreadCluster) -> None:
    run(own, "updateTopic", "-t", "orders", "-c", "DefaultCluster")
    send(own, "orders")
    read_all(own, "orders", "old", broker="broker-a")

    options = ("--no-wait", "--settle", "0")
    assert run(own, "drain", "broker-b", *options).exit_code == 3
    assert run(own, "drain", "broker-b", *options, "--ignore-group", "old").exit_code == 0


def test_messages_that_wait_for_their_time_hold_a_drain_up(own: ThreadCluster) -> None:
    run(own, "updateTopic", "-t", "orders", "-c", "DefaultCluster")
    with Producer("senders", own.namesrv_address) as producer:
        for _ in range(8):
            producer.send(Message("orders", b"x", delay_level=18))
            producer.send(Message("orders", b"x", delay=3_600))

    ended = run(own, "drain", "broker-b", "--no-wait", "--settle", "0", "--json")

    assert ended.exit_code == 3
    assert records(ended)[-1]["waiting"] == 8


def test_a_transaction_that_nobody_ended_holds_a_drain_up(own: ThreadCluster) -> None:
    run(own, "updateTopic", "-t", "orders", "-c", "DefaultCluster")

    def unknown(*_: object) -> TransactionState:
        return TransactionState.UNKNOWN

    with TransactionProducer("payers", own.namesrv_address, execute=unknown, check=unknown) as producer:
        for _ in range(16):
            producer.send_in_transaction(Message("orders", b"x"))

        ended = run(own, "drain", "broker-b", "--no-wait", "--settle", "0", "--json")

    assert ended.exit_code == 3
    assert records(ended)[-1]["waiting"] == 8


def test_what_no_group_ever_read_is_told(own: ThreadCluster) -> None:
    run(own, "updateTopic", "-t", "orders", "-c", "DefaultCluster")
    send(own, "orders")

    ended = run(own, "drain", "broker-b", "--no-wait", "--settle", "0")

    assert ended.exit_code == 0
    assert "orders  (no group reads it)  8" in ended.stdout
    assert "8 messages of topic orders were read by no group" in ended.stderr


@pytest.mark.row("AD-07")
def test_a_broker_with_topics_that_are_nowhere_else_is_not_drained_unless_it_is_forced(
    own: ThreadCluster,
) -> None:
    run(own, "updateTopic", "-t", "lonely", "-b", own.broker_addresses[1])

    refused = run(own, "drain", "broker-b", "--no-wait")

    assert isinstance(refused.exception, drain_command.NowhereElse)
    assert "lonely" in str(refused.exception)
    assert perms(own, "lonely") == {"broker-b": Perm.READ | Perm.WRITE}
    assert run(own, "drain", "broker-b", "--no-wait", "--settle", "0", "--force").exit_code == 0
    assert perms(own, "lonely") == {"broker-b": Perm.READ}


def test_a_permission_that_comes_back_is_taken_again(
    own: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(own, "updateTopic", "-t", "orders", "-c", "DefaultCluster")
    send(own, "orders")
    read_all(own, "orders", "billing", broker="broker-a")
    seen: list[int] = []

    def change_topics(_: object, seconds: float) -> None:
        run(own, "updateTopic", "-t", f"new-{len(seen)}", "-c", "DefaultCluster")
        seen.append(perms(own, "orders")["broker-b"])
        if len(seen) > 1:
            read_all(own, "orders", "billing", broker="broker-b")

    monkeypatch.setattr(drain_command.Operator, "pause", change_topics)
    ended = run(own, "drain", "broker-b", "--settle", "0")

    assert ended.exit_code == 0
    assert ended.stdout.count("wipe write perm of broker[broker-b]") == 1 + len(seen)
    assert perms(own, "orders")["broker-b"] == Perm.READ


def test_a_drain_is_undone(own: ThreadCluster) -> None:
    run(own, "updateTopic", "-t", "orders", "-c", "DefaultCluster")
    run(own, "drain", "broker-b", "--no-wait")

    assert run(own, "drain", "broker-b", "--undo").exit_code == 0
    assert perms(own, "orders")["broker-b"] == Perm.READ | Perm.WRITE


def order_configuration(cluster: ThreadCluster, topic: str) -> str | None:
    key = GetKvConfig(namespace="ORDER_TOPIC_CONFIG", key=topic)
    with Operator(cluster.namesrv_address) as operator:
        answer = operator.run(
            lambda _, deadline: ask(
                cluster.namesrv_address, request(RequestCode.GET_KV_CONFIG, key), deadline.left_s
            )
        )
    return (answer.ext or {}).get("value")
