"""Traces that our client sends, and that are read again."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pyromq
from pyromq import Message, aio
from pyromq.cli.main import app
from pyromq.cli.messages.message_trace import json_steps, lines
from pyromq.client.tracing.trace_format import TraceEntry, TraceType, decode_entries
from pyromq.client.tracing.trace_life import TraceEvent, find_life
from pyromq.config.settings import ClientSettings
from pyromq.errors import PyroError
from pyromq.model import ConsumeFrom, ReceivedMessage, TransactionState
from pyromq.system_names import TRACE
from pyromq.testing.cluster import Cluster, running_cluster
from pyromq.testing.waiting import aeventually

TRACED = ClientSettings(enable_msg_trace=True)


@pytest.fixture
async def traced(tmp_path: Path) -> AsyncIterator[Cluster]:
    # What failed comes again after a second, not after ten.
    levels = " ".join(["1s"] * 18)
    async with Cluster(data_dir=tmp_path, trace_topic_enable=True, message_delay_level=levels) as cluster:
        yield cluster


async def entries_of(cluster: Cluster, message_id: str) -> list[TraceEntry]:
    async with aio.Admin(cluster.namesrv_address) as admin:
        found = await admin.query_message(TRACE, message_id)
    return [
        entry
        for message in found
        for entry in decode_entries(message.body.decode(), message.born_host)
        if entry.message_id == message_id
    ]


async def test_the_trace_topic_is_there_when_the_broker_is_told_so(traced: Cluster) -> None:
    async with aio.Admin(traced.namesrv_address) as admin:
        (queues,) = (await admin.route(TRACE)).queue_datas
    assert queues.write_queue_nums == 1


async def test_a_send_leaves_its_trace(traced: Cluster) -> None:
    async with aio.Producer("senders", traced.namesrv_address, TRACED) as producer:
        sent = await producer.send(Message("orders", b"seven b", tags="paid", keys=["42", "43"]))

    (entry,) = await entries_of(traced, sent.message_id)

    assert (entry.type, entry.group, entry.topic) == (TraceType.PUB, "senders", "orders")
    assert (entry.tags, entry.keys, entry.body_bytes) == ("paid", "42 43", 7)
    assert entry.broker_address == traced.broker_addresses[0]
    assert entry.offset_message_id == sent.offset_message_id
    assert entry.is_success


async def test_every_message_of_a_batch_is_found_by_its_own_id(traced: Cluster) -> None:
    async with aio.Producer("senders", traced.namesrv_address, TRACED) as producer:
        sent = await producer.send_batch([Message("orders", b"1"), Message("orders", b"2")])

    message_ids = sent.message_id.split(",")
    assert len(message_ids) == 2
    for message_id, offset_id in zip(message_ids, sent.offset_message_id.split(","), strict=True):
        (entry,) = await entries_of(traced, message_id)
        assert entry.offset_message_id == offset_id


async def test_nothing_is_traced_unless_it_is_asked_for(traced: Cluster) -> None:
    async with aio.Producer("senders", traced.namesrv_address) as producer:
        sent = await producer.send(Message("orders", b"1"))

    assert await entries_of(traced, sent.message_id) == []


async def test_a_broker_that_wants_no_traces_gets_none(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path, trace_topic_enable=True, trace_on=False) as cluster:
        async with aio.Producer("senders", cluster.namesrv_address, TRACED) as producer:
            sent = await producer.send(Message("orders", b"1"))

        assert await entries_of(cluster, sent.message_id) == []


async def test_each_try_of_a_listener_leaves_its_trace(traced: Cluster) -> None:
    tries: list[int] = []

    async def listener(message: ReceivedMessage) -> None:
        tries.append(message.reconsume_times)
        if len(tries) == 1:
            raise ValueError("the first time it fails")

    async with aio.Producer("senders", traced.namesrv_address) as producer:
        sent = await producer.send(Message("orders", b"1", keys=["42"]))
    consumer = aio.PushConsumer(
        "readers",
        traced.namesrv_address,
        listener=listener,
        settings=TRACED,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        max_reconsume_times=3,
    )
    consumer.subscribe("orders")
    async with consumer:
        await aeventually(lambda: len(tries) == 2, timeout_s=40)

    entries = await entries_of(traced, sent.message_id)

    before = [entry for entry in entries if entry.type == TraceType.SUB_BEFORE]
    after = [entry for entry in entries if entry.type == TraceType.SUB_AFTER]
    assert [entry.retries for entry in before] == [0, 1]
    assert [entry.is_success for entry in after] == [False, True]
    assert [entry.how_it_ended for entry in after] == [2, 0]
    assert [entry.request_id for entry in before] == [entry.request_id for entry in after]
    assert {entry.group for entry in entries} == {"readers"}


async def test_a_transaction_leaves_the_trace_of_its_half_and_of_its_end(traced: Cluster) -> None:
    producer = aio.TransactionProducer(
        "senders",
        traced.namesrv_address,
        TRACED,
        execute=lambda _message, _arg: TransactionState.COMMIT,
        check=lambda _message: TransactionState.COMMIT,
    )
    async with producer:
        sent = await producer.send_in_transaction(Message("orders", b"1", tags="paid"))

    half, end = await entries_of(traced, sent.message_id)

    assert (half.type, half.kind) == (TraceType.PUB, 1)
    assert (end.type, end.transaction_state, end.was_asked) == (
        TraceType.END_TRANSACTION,
        "COMMIT_MESSAGE",
        False,
    )
    assert (end.topic, end.tags) == ("orders", "paid")


async def test_a_trace_topic_that_is_not_there_disturbs_no_send(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster(data_dir=tmp_path, auto_create_topic_enable=False) as cluster:
        async with aio.Admin(cluster.namesrv_address) as admin:
            await admin.create_topic("orders")
        async with aio.Producer("senders", cluster.namesrv_address, TRACED) as producer:
            sent = await producer.send(Message("orders", b"1"))

    assert sent.queue.topic == "orders"
    assert "traces of senders cannot be sent to topic RMQ_SYS_TRACE_TOPIC, 1 are lost" in caplog.text


async def test_traces_go_to_the_topic_that_was_chosen(traced: Cluster) -> None:
    settings = ClientSettings(enable_msg_trace=True, customized_trace_topic="own-traces")
    async with aio.Producer("senders", traced.namesrv_address, settings) as producer:
        sent = await producer.send(Message("orders", b"1"))

    async with aio.Admin(traced.namesrv_address) as admin:
        (found,) = await admin.query_message("own-traces", sent.message_id)
    assert found.keys == [sent.message_id]


async def dead_and_replayed(cluster: Cluster) -> str:
    """Send a message that a group gives up at once, replay it, and return its id."""
    handled: list[str] = []
    is_mended = False

    async def listener(message: ReceivedMessage) -> bool:
        handled.append(message.message_id)
        return is_mended

    async with aio.Producer("senders", cluster.namesrv_address, TRACED) as producer:
        sent = await producer.send(Message("orders", b"1", keys=["42"]))
    consumer = aio.PushConsumer(
        "readers",
        cluster.namesrv_address,
        listener=listener,
        settings=TRACED,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        max_reconsume_times=0,
    )
    consumer.subscribe("orders")
    async with consumer, aio.Admin(cluster.namesrv_address) as admin:

        async def letters() -> list[ReceivedMessage]:
            try:
                return await admin.messages_by_id("%DLQ%readers", sent.message_id)
            except PyroError:
                return []

        await aeventually(letters, timeout_s=40)
        is_mended = True
        async with aio.DeadLetters(cluster.namesrv_address) as dead:
            assert [result.error async for result in dead.replay("readers")] == [None]
        await aeventually(lambda: len(handled) == 2, timeout_s=40)
    return sent.message_id


async def test_a_life_from_send_to_replay_is_told_and_printed(traced: Cluster) -> None:
    message_id = await dead_and_replayed(traced)

    async with aio.Admin(traced.namesrv_address) as admin:
        life = await find_life(admin, message_id)

    assert [step.event for step in life.steps] == [
        TraceEvent.SENT,
        TraceEvent.STORED,
        TraceEvent.CONSUMED,
        TraceEvent.DEAD,
        TraceEvent.REPLAYED,
        TraceEvent.CONSUMED,
    ]
    assert [step.is_success for step in life.steps if step.event == TraceEvent.CONSUMED] == [False, True]
    printed = "\n".join(lines(life))
    assert "consumed, try 1" in printed
    assert "%DLQ%readers, queue 0, offset 0" in printed
    assert [record["event"] for record in json_steps(life)] == [step.event.value for step in life.steps]


async def test_a_life_without_traces_is_told_by_what_brokers_have(traced: Cluster) -> None:
    async with aio.Producer("senders", traced.namesrv_address) as producer:
        sent = await producer.send(Message("orders", b"1"))

    async with aio.Admin(traced.namesrv_address) as admin:
        by_topic = await find_life(admin, sent.message_id, topic="orders")
        by_place = await find_life(admin, sent.offset_message_id)
        unknown = await find_life(admin, "no-such-id")

    assert [step.event for step in by_topic.steps] == [TraceEvent.STORED]
    assert by_place.steps == by_topic.steps
    assert unknown.steps == []


def test_the_command_prints_a_line_for_each_step() -> None:
    with running_cluster(trace_topic_enable=True) as cluster:
        with pyromq.Producer("senders", cluster.namesrv_address, TRACED) as producer:
            sent = producer.send(Message("orders", b"1"))
        words = ["message", "trace", sent.message_id, "-n", cluster.namesrv_address]

        told = CliRunner().invoke(app, [*words, "--json"])
        unknown = CliRunner().invoke(app, ["message", "trace", "unknown", "-n", cluster.namesrv_address])

    assert told.exit_code == 0, told.output
    assert [json.loads(line)["event"] for line in told.stdout.splitlines()] == ["sent", "stored"]
    assert unknown.exit_code == 3
