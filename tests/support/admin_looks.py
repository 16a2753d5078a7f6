"""Every command that only looks, as it is typed, and a scene in which each of them has something to see.

The same table is run on our servers (tests/functional/test_admin_looks.py) and on Apache's
(tests/interop/test_admin_on_apache.py). Words have places in braces, which the scene fills in.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from admin_stage import AdminStage
from command_walk import asks_a_cluster, commands
from dead_letter_stage import undertaker
from typer.testing import CliRunner, Result

from pyromq import ConsumeFrom, DeadLetters, Message, Producer, PushConsumer
from pyromq.cli.main import app
from pyromq.cli.views import listing
from pyromq.testing.waiting import eventually

MESSAGE_COUNT = 8
BODY = "body 1"
#: How a command ends that was interrupted.
INTERRUPTED = 130
#: Seconds for a busy machine with a Java broker.
PATIENCE_S = 240


@dataclass(frozen=True, slots=True)
class Look:
    """A command, and what it has to show: a row of its JSON with these values."""

    command: str
    words: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)
    #: How it ends, and how it ends on Apache's brokers where that is not the same.
    status: int = 0
    status_on_apache: int | None = None
    #: Whether it looks again and again.
    is_endless: bool = False

    def __str__(self) -> str:
        return f"{self.command} {self.words}".strip()


#: Values that rows have in common.
_TOPIC = {"topic": "{topic}"}
_GROUP = {"group": "{group}"}
_BROKER = {"name": "broker-a", "address": "{address}"}
_LISTED = {"cluster": "{cluster}", "broker_name": "broker-a", "address": "{address}"}
_READ = {"group": "{group}", "topic": "{topic}", "broker": "broker-a", "queue": 0, "lag": 0}
_MEMBER = {"client_id": "{client}", "language": "PYTHON"}
_MESSAGE = {"message_id": "{message_id}", "offset_message_id": "{offset_id}", "body": BODY, "keys": ["k1"]}
_DEAD = {"group": "{group}", "topic": "{topic}", "first_id": "{dead_id}", "body": "given up"}

LOOKS = (
    # The cluster
    Look("admin clusterList", "", _LISTED),
    Look("admin clusterList", "-m", _LISTED),
    Look("admin brokerStatus", "-b {address}", _BROKER),
    Look("admin brokerStatus", "-c {cluster}", _BROKER),
    Look("admin getBrokerConfig", "-c {cluster}", _BROKER),
    Look("admin getNamesrvConfig", "", {"name": "namesrv", "address": "{name_server}"}),
    Look("admin brokerConsumeStats", "-b {address}", _READ),
    Look("admin exportMetadata", "-c {cluster} -f {folder}"),
    Look("admin exportConfigs", "-c {cluster} -f {folder}"),
    Look("admin exportMetrics", "-c {cluster} -f {folder}"),
    # Access control is off, and roles are fixed: both are said, with the broker's name or address.
    Look("admin clusterAclConfigVersion", "-b {address}", status=1),
    Look("admin replicas", status=1),
    Look("cluster list", "", _LISTED),
    Look("cluster list", "--totals", _LISTED),
    Look("cluster status", "-b {address}", _BROKER),
    Look("cluster settings", "", _BROKER),
    Look("cluster settings", "--name-servers", {"address": "{name_server}"}),
    Look("top", "--once"),
    Look("doctor", "--watch 0", {"well": True}),
    # Topics
    Look("admin topicList", "", _TOPIC),
    Look("admin topicList", "-c", {"cluster": "{cluster}", "topic": "{topic}", "group": "{group}"}),
    Look("admin topicRoute", "-t {topic}", {"topic": "{topic}", "broker": "broker-a", "write_queues": 2}),
    Look("admin topicRoute", "-t {topic} -l", {"broker": "broker-a", "read_queues": 2, "perm": 6}),
    Look("admin topicStatus", "-t {topic}", {"broker": "broker-a", "queue": 1, "min_offset": 0}),
    Look("admin topicClusterList", "-t {topic}", {"cluster": "{cluster}"}),
    Look("admin allocateMQ", "-t {topic} -i 10.0.0.1,10.0.0.2", {"member": "10.0.0.2", "count": 1}),
    Look("admin statsAll", "-t {topic}", {"topic": "{topic}", "group": "{group}", "lag": 0}),
    Look("admin queryCq", "-t {topic} -q {queue} -i 1", {"topic": "{topic}", "tags_code": ord("b")}),
    Look("topic list", "", {"topic": "{topic}", "brokers": ["broker-a"], "write_queues": 2}),
    Look("topic show", "{topic}", {"topic": "{topic}", "queue": 1, "min_offset": 0}),
    Look("topic rates", "{topic}", {"topic": "{topic}", "group": "{group}", "lag": 0}),
    # Groups and clients
    Look("admin consumerProgress", "", {"group": "{group}", "members": 1, "type": "PUSH"}),
    Look("admin consumerProgress", "-g {group} -s true", _READ),
    Look("admin consumerConnection", "-g {group}", _MEMBER),
    Look("admin consumerStatus", "-g {group}", {"group": "{group}", "is_consistent": True}),
    Look("admin consumerStatus", "-g {group} -i {client} -s", _MEMBER),
    Look("admin getConsumerStatus", "-g {group} -t {topic}", {"client_id": "{client}", "queue": 0}),
    Look("admin getConsumerConfig", "-g {group}", {"groupName": "{group}", "retryMaxTimes": 16}),
    Look("admin producer", "-b {address}", {"group": "{producers}", "language": "PYTHON"}),
    Look("admin producerConnection", "-g {producers} -t {topic}", {"language": "PYTHON"}),
    Look("admin startMonitoring", "--least 0", {"group": "{group}", "members": 1}, is_endless=True),
    Look("group list", "", {"group": "{group}", "members": 1, "lag": 0}),
    Look("group lag", "{group} --members", _READ),
    Look("group members", "{group}", _MEMBER),
    Look("group show", "{group}", {"groupName": "{group}", "retryMaxTimes": 16}),
    # Messages
    Look("admin queryMsgById", "-i {offset_id}", _MESSAGE),
    Look("admin queryMsgByUniqueKey", "-t {topic} -i {message_id}", _MESSAGE),
    Look("admin queryMsgByKey", "-t {topic} -k k1", _MESSAGE),
    Look("admin queryMsgByOffset", "-t {topic} -b broker-a -i {queue} -o {offset}", _MESSAGE),
    Look("admin printMsg", "-t {topic}", _MESSAGE),
    Look("admin printMsgByQueue", "-t {topic} -a broker-a -i {queue} -p true -d true", _MESSAGE),
    Look("admin printMsgByQueue", "-t {topic} -a broker-a -i {queue} -f true", {"tag": "b", "count": 4}),
    Look("admin consumeMessage", "-t {topic}", _MESSAGE),
    Look("admin DecodeMessageId", "-i {offset_id}", {"id": "{offset_id}"}),
    Look("admin queryMsgTraceById", "-i {traced_id}", {"type": "Pub", "status": "success"}),
    Look("message show", "{topic} {message_id}", _MESSAGE),
    Look("message search", "{topic} --key k1", _MESSAGE),
    Look("message search", "{topic} --since 1h --tags b", _MESSAGE),
    Look("message at", "{topic} broker-a:{queue} {offset}", _MESSAGE),
    Look("message trace", "{traced_id}", {"topic": "{topic}", "event": "stored"}),
    Look("dlq list", "", {"group": "{group}", "count": 1}),
    Look("dlq list", "{group}", _DEAD),
    Look("dlq show", "{group} {dead_id}", _DEAD),
    # Apache's 4.9 has no messages that wait for any time.
    Look("delayed list", "{topic}", {"topic": "{topic}", "body": "later"}, status_on_apache=1),
    Look("delayed show", "{waiting_id}", {"message_id": "{waiting_id}"}, status_on_apache=1),
)


def check(look: Look, scene: Mapping[str, str], status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command twice, and fail unless it ends so, people see something, and programs see the row."""
    if look.is_endless:
        _interrupt_the_first_pause(monkeypatch)
        status = INTERRUPTED
    shown, said = _typed(look, scene), _typed(look, scene, "--json")

    assert (shown.exit_code, said.exit_code) == (status, status), shown.output + repr(shown.exception)
    rows = [json.loads(line) for line in said.stdout.splitlines()]
    if status in (0, INTERRUPTED):
        wanted = _filled(look.row, scene)
        assert shown.stdout.strip()
        assert any(row.items() >= wanted.items() for row in rows), (wanted, rows)
    else:
        assert shown.stderr.strip()


def _typed(look: Look, scene: Mapping[str, str], *more: str) -> Result:
    words = [*look.command.split(), *(word.format(**scene) for word in look.words.split()), *more]
    if asks_a_cluster(commands()[look.command]):
        words += ["-n", scene["name_server"]]
    return CliRunner().invoke(app, words)


def _filled(row: Mapping[str, Any], scene: Mapping[str, str]) -> dict[str, Any]:
    return {name: value.format(**scene) if isinstance(value, str) else value for name, value in row.items()}


def _interrupt_the_first_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "pause", interrupt)


@contextmanager
def scene(stage: AdminStage, topic: str, *, address: str, can_delay: bool) -> Iterator[dict[str, str]]:
    """Give the names of a topic that is read, and of a producer, a trace, a dead letter, one that waits."""
    group, producers = f"{topic}-readers", f"{topic}-senders"
    assert stage.admin("updateSubGroup", "-g", group, "-c", "DefaultCluster").exit_code == 0
    sent = stage.fill(topic, MESSAGE_COUNT)[1]
    with ExitStack() as open_things:
        consumer = open_things.enter_context(_reader(stage, topic, group))
        producer = open_things.enter_context(Producer(producers, stage.name_server))
        producer.send(Message(topic, b"by one who stays"))
        (traced,) = stage.records("admin", "sendMessage", "-t", topic, "-p", "traced", "-m", "true")
        found = {
            "topic": topic,
            "group": group,
            "producers": producers,
            "cluster": "DefaultCluster",
            "address": address,
            "name_server": stage.name_server,
            "client": consumer.client_id,
            "message_id": sent.message_id,
            "offset_id": sent.offset_message_id,
            "queue": str(sent.queue.queue_id),
            "offset": str(sent.queue_offset),
            "traced_id": traced["message_id"],
            "dead_id": _bury(stage, group, topic, address),
            "waiting_id": _delay(producer, topic) if can_delay else sent.message_id,
        }
        for words in (
            ("producerConnection", "-g", producers, "-t", topic),
            ("queryMsgTraceById", "-i", traced["message_id"]),
            ("getConsumerStatus", "-g", group, "-t", topic),
        ):
            eventually(lambda: stage.admin(*words).exit_code == 0, PATIENCE_S, what=" ".join(words))  # noqa: B023
        yield found


@contextmanager
def _reader(stage: AdminStage, topic: str, group: str) -> Iterator[PushConsumer]:
    with PushConsumer(
        group,
        stage.name_server,
        listener=lambda _: None,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        persist_consumer_offset_interval=500,
    ) as consumer:
        consumer.subscribe(topic)
        eventually(
            lambda: sum(one or 0 for one in stage.progress(topic, group).values()) >= MESSAGE_COUNT,
            PATIENCE_S,
            what="the group has read",
        )
        yield consumer


def _bury(stage: AdminStage, group: str, topic: str, address: str) -> str:
    with undertaker(stage.name_server, [address]) as grave, DeadLetters(stage.name_server) as letters:
        dead = grave.bury(group, topic, b"given up", broker="broker-a")
        eventually(lambda: stage.run("dlq", "list").stdout.find(group) >= 0, PATIENCE_S, what="it is dead")
        # Brokers of 4.9 let nobody read dead letters.
        letters.make_readable(group)
    return dead


def _delay(producer: Producer, topic: str) -> str:
    return producer.send(Message(topic, b"later", delay=timedelta(hours=1))).message_id
