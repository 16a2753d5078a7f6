"""Java's push consumer 5.5 in POP mode, and Apache's mqadmin 5.5, on our broker and on Apache's 5.5."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.mqadmin import Mqadmin
from harness.program import Event, Program
from harness.servers import STARTS, Cluster
from harness.toolchains import Unavailable, java_class

from pyromq import Admin, Message, Producer
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

PATIENCE_S = 90
#: Members ask for their share each second, and not every twenty.
OPTIONS = ("-Drocketmq.client.rebalance.waitInterval=1000",)

ON_APACHE = pytest.param("apache-5-timers", marks=pytest.mark.long)


@pytest.fixture(scope="module", params=["up", ON_APACHE])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp(request.param)
    with ExitStack() as closing:
        try:
            yield STARTS[request.param](folder, closing)
        except Unavailable as error:
            unavailable(error)


@pytest.fixture(scope="module")
def mqadmin(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Mqadmin"]:
    try:
        mqadmin = Mqadmin(tmp_path_factory.mktemp("mqadmin"), "5.5.0", "tools-5.5.0")
    except Unavailable as error:
        unavailable(error)
    with mqadmin:
        yield mqadmin


def java_program(name: str, version: str, cluster: Cluster, folder: Path) -> Program:
    try:
        command = java_class(name, version, [*OPTIONS, f"-Duser.home={folder}"])
    except Unavailable as error:
        unavailable(error)
    return Program([*command, cluster.name_server], folder=folder, env=dict(os.environ))


@pytest.fixture
def members(cluster: Cluster, tmp_path: Path) -> Iterator[Program]:
    program = java_program("PopMembers", "5.5.0", cluster, tmp_path)
    try:
        yield program
    finally:
        program.close()


def create(cluster: Cluster, topic: str, queues: int) -> None:
    with Admin(cluster.name_server) as admin:
        admin.create_topic(topic, queues)


def send(cluster: Cluster, topic: str, bodies: list[str]) -> None:
    with Producer("senders", cluster.name_server) as producer:
        for body in bodies:
            producer.send(Message(topic, body.encode(), tags="wanted" if len(body) % 2 else "other"))


def set_mode(mqadmin: Mqadmin, cluster: Cluster, topic: str, group: str, *words: str) -> None:
    (broker,) = cluster.brokers.values()
    target = ("-b", broker, "-t", topic, "-g", group)
    printed = mqadmin.run("setConsumeMode", "-n", cluster.name_server, *target, *words)
    assert "set consume mode to" in printed.text, printed.text


def consumed(program: Program, **wanted: object) -> list[Event]:
    return [
        event
        for event in program.of("consumed")
        if all(event[name] == value for name, value in wanted.items())
    ]


@pytest.mark.row("PO-22")
def test_more_members_than_queues_pop_retry_and_go_back_to_pulling(
    cluster: Cluster, mqadmin: Mqadmin, members: Program
) -> None:
    topic, group = "popped", "poppers"
    create(cluster, topic, 1)
    set_mode(mqadmin, cluster, topic, group, "-m", "POP", "-q", "0")
    for name in ("a", "b", "c"):
        members.do("join", name, group, topic, "*", 1)
    sent: list[str] = []

    def have_all_got_one() -> bool:
        if len(consumed(members, times=0)) == len(sent):
            sent.append(f"message-{len(sent)}")
            send(cluster, topic, sent[-1:])
        return {event["member"] for event in consumed(members, times=0)} == {"a", "b", "c"}

    eventually(have_all_got_one, PATIENCE_S, what="three members work on one queue")
    more = [f"message-{number}" for number in range(len(sent), len(sent) + 60)]
    send(cluster, topic, more)
    sent += more
    eventually(
        lambda: {event["body"] for event in consumed(members, times=1)} == set(sent),
        PATIENCE_S,
        what="all came again",
    )

    first = consumed(members, times=0)
    assert Counter(event["body"] for event in first) == dict.fromkeys(sent, 1)
    assert Counter(event["body"] for event in consumed(members, times=1)) == dict.fromkeys(sent, 1)
    assert all(event["popped"] for event in members.of("consumed"))
    assert {event["topic"] for event in members.of("consumed")} == {topic}

    set_mode(mqadmin, cluster, topic, group, "-m", "PULL")
    probes: list[str] = []

    def is_pulled() -> bool:
        # One at a time, for those that still pop.
        if set(probes) <= {event["body"] for event in members.of("consumed")}:
            probes.append(f"probe-{len(probes)}")
            send(cluster, topic, probes[-1:])
        return bool(consumed(members, popped=False))

    eventually(is_pulled, PATIENCE_S, what="the group pulls again")
    assert members.quit() == 0


@pytest.mark.row("PO-22")
def test_members_share_queues_with_the_next_ones(
    cluster: Cluster, mqadmin: Mqadmin, members: Program
) -> None:
    topic, group = "shared", "sharers"
    create(cluster, topic, 4)
    set_mode(mqadmin, cluster, topic, group, "-m", "POP", "-q", "2")
    for name in ("a", "b", "c", "d"):
        members.do("join", name, group, topic, "wanted", 0)
    sent = [f"m-{number:0{1 + number % 2}}" for number in range(100, 160)]

    send(cluster, topic, sent)

    wanted = {body for body in sent if len(body) % 2}
    eventually(
        lambda: {event["body"] for event in members.of("consumed")} == wanted, PATIENCE_S, what="all came"
    )
    assert Counter(event["body"] for event in members.of("consumed")) == dict.fromkeys(wanted, 1)
    assert members.quit() == 0


def test_clients_of_4_9_and_of_5_x_read_one_topic(
    cluster: Cluster, mqadmin: Mqadmin, members: Program, tmp_path: Path
) -> None:
    topic = "both"
    create(cluster, topic, 2)
    set_mode(mqadmin, cluster, topic, "new_clients", "-m", "POP")
    (tmp_path / "old").mkdir()
    old = java_program("Members", "4.9.8", cluster, tmp_path / "old")
    try:
        old.do("join", "old", "old_clients", topic, "concurrent", 0)
        members.do("join", "new", "new_clients", topic, "*", 0)
        sent = [f"message-{number}" for number in range(40)]
        send(cluster, topic, sent)

        eventually(lambda: len(old.of("consumed")) == len(sent), PATIENCE_S, what="4.9's group has all")
        eventually(
            lambda: sorted(event["body"] for event in members.of("consumed")) == sorted(sent),
            PATIENCE_S,
            what="5.x's group has all",
        )
        assert members.quit() == 0
    finally:
        old.close()


def test_mqadmin_5_5_sets_types_modes_and_fields(cluster: Cluster, mqadmin: Mqadmin) -> None:
    (broker,) = cluster.brokers.values()
    at = ("-n", cluster.name_server, "-b", broker)

    typed = mqadmin.run("updateTopic", *at, "-t", "typed", "-a", "+message.type=FIFO")
    unknown = mqadmin.run("updateTopic", *at, "-t", "typed", "-a", "+message.type=LATER")
    group = mqadmin.run("updateSubGroup", *at, "-g", "fifo_group", "-o", "true", "-r", "3")
    config = mqadmin.run("getConsumerConfig", "-n", cluster.name_server, "-g", "fifo_group")
    mode = mqadmin.run("setConsumeMode", *at, "-t", "typed", "-g", "fifo_group", "-m", "POP", "-q", "8")
    nowhere = mqadmin.run("setConsumeMode", *at, "-t", "nowhere", "-g", "fifo_group", "-m", "POP")

    assert "create topic to" in typed.text, typed.text
    assert "value is not in set" in unknown.text
    assert "create subscription group to" in group.text, group.text
    assert "consumeMessageOrderly" in config.text
    assert [line.split()[-1] for line in config.text.splitlines() if "consumeMessageOrderly" in line] == [
        "true"
    ]
    assert "popShareQueueNum[8]" in mode.text, mode.text
    assert "not exist" in nowhere.text


def test_mqadmin_5_5_shows_the_progress_of_a_group_that_pops(
    cluster: Cluster, mqadmin: Mqadmin, members: Program
) -> None:
    topic, group = "watched", "watchers"
    create(cluster, topic, 2)
    set_mode(mqadmin, cluster, topic, group, "-m", "POP")
    members.do("join", "a", group, topic, "*", 0)
    send(cluster, topic, [f"message-{number}" for number in range(20)])
    eventually(lambda: len(members.of("consumed")) == 20, PATIENCE_S, what="all are consumed")

    def is_finished() -> bool:
        printed = mqadmin.run("consumerProgress", "-n", cluster.name_server, "-g", group).text
        totals = {
            line.split(":")[0]: line.split(":")[-1].strip() for line in printed.splitlines() if ":" in line
        }
        return totals.get("Consume Diff Total") == "0" and totals.get("Consume Inflight Total") == "0"

    eventually(is_finished, PATIENCE_S, what="nothing waits and nothing is in flight")
    assert members.quit() == 0
