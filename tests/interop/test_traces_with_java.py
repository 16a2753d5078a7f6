"""Message traces of Java's client and of ours: written alike, and each reads the other's."""

import base64
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.program import Event, Program
from harness.servers import OURS_AND_APACHES, Cluster
from harness.toolchains import Unavailable, java_class

from pyromq import Admin, Message, Producer, PushConsumer
from pyromq.client.tracing.trace_format import TraceEntry, decode_entries, encode_entry
from pyromq.config.settings import ClientSettings
from pyromq.errors import PyroError
from pyromq.model import ConsumeFrom, ReceivedMessage
from pyromq.system_names import TRACE
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

DEADLINE_S = 120
SOON = ("-Drocketmq.client.rebalance.waitInterval=1000",)
TRACED = ClientSettings(enable_msg_trace=True)
_numbers = itertools.count(1)


@pytest.fixture(params=OURS_AND_APACHES)
def servers(request: pytest.FixtureRequest, running: Callable[[str], Cluster]) -> Cluster:
    """Our servers, and Apache's."""
    return running(request.param)


@pytest.fixture
def java(servers: Cluster, tmp_path: Path) -> Iterator[Program]:
    """A producer and consumers of the 4.9.8 client, with traces."""
    try:
        command = java_class("Traces", "4.9.8", [f"-Duser.home={tmp_path}", *SOON])
    except Unavailable as error:
        unavailable(error)
    program = Program([*command, servers.name_server], folder=tmp_path, env=dict(os.environ))
    yield program
    program.close()


@pytest.fixture
def names() -> tuple[str, str]:
    """A topic and a group of this test alone."""
    number = next(_numbers)
    return f"traced_{number}", f"traced_group_{number}"


def entries_of(servers: Cluster, message_id: str) -> list[TraceEntry]:
    with Admin(servers.name_server) as admin:
        try:
            found = admin.query_message(TRACE, message_id, count=64)
        except PyroError:
            return []
    entries = [entry for one in found for entry in decode_entries(one.body.decode(), one.born_host)]
    return sorted((one for one in entries if one.message_id == message_id), key=lambda one: one.at_ms)


def test_entries_are_written_byte_for_byte_as_java_writes_them(java: Program) -> None:
    encoded = [event["text"] for event in java.do("encode") if event["event"] == "encoded"]
    texts = [base64.b64decode(text).decode() for text in encoded]

    assert len(texts) == 8
    for text in texts:
        (entry,) = decode_entries(text)
        assert encode_entry(entry) == text


def test_java_reads_the_traces_of_our_clients(
    servers: Cluster, java: Program, names: tuple[str, str]
) -> None:
    topic, group = names
    tries: list[int] = []

    def listener(message: ReceivedMessage) -> bool:
        tries.append(message.reconsume_times)
        return message.reconsume_times > 0

    with Producer("our_tracing", servers.name_server, TRACED) as producer:
        sent = producer.send(Message(topic, b"x", tags="paid", keys=["42", "43"]))
    consumer = PushConsumer(
        group,
        servers.name_server,
        listener=listener,
        settings=TRACED,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        rebalance_wait_interval=1_000,
    )
    consumer.subscribe(topic)
    with consumer:
        eventually(lambda: len(tries) == 2, DEADLINE_S)

    def seen() -> list[Event]:
        return [one for one in java.do("read", TRACE, sent.message_id) if one["event"] == "trace"]

    eventually(lambda: len(seen()) == 5, DEADLINE_S)
    by_type = sorted((one["type"], one["status"]) for one in seen())
    assert by_type == [
        ("Pub", "success"),
        ("SubAfter", "failed"),
        ("SubAfter", "success"),
        ("SubBefore", "success"),
        ("SubBefore", "success"),
    ]
    (pub,) = [one for one in seen() if one["type"] == "Pub"]
    assert (pub["group"], pub["topic"], pub["tags"], pub["keys"]) == ("our_tracing", topic, "paid", "42 43")
    assert pub["offset_id"] == sent.offset_message_id


def test_we_read_the_traces_of_javas_clients(servers: Cluster, java: Program, names: tuple[str, str]) -> None:
    topic, group = names
    (sent,) = [one for one in java.do("send", topic, "body") if one["event"] == "sent"]
    java.do("join", group, topic)
    eventually(lambda: len(java.of("got")) == 2, DEADLINE_S)

    eventually(lambda: len(entries_of(servers, sent["id"])) == 5, DEADLINE_S)

    entries = entries_of(servers, sent["id"])
    (pub,) = [one for one in entries if one.type == "Pub"]
    assert (pub.group, pub.topic, pub.tags, pub.keys) == ("java_tracing", topic, "paid", "42 43")
    after = [(one.group, one.is_success) for one in entries if one.type == "SubAfter"]
    assert sorted(after) == [(group, False), (group, True)]
    assert sorted(one.retries for one in entries if one.type == "SubBefore") == [0, 1]
