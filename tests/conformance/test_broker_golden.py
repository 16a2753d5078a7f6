"""The broker's answers against those of a real 4.9.8, byte for byte, up to times, ports and addresses.

The requests that led to `golden_4.9.8.txt` are sent again, in their order and with their opaque numbers: what
they store and commit shows in later answers.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from pyromq.broker.broker import Broker
from pyromq.codes import RequestCode as Code
from pyromq.codes import Serializer
from pyromq.config.settings import MIB, BrokerProcess, BrokerSettings, StoreSettings
from pyromq.testing.golden import GoldenAnswer, read_answers
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import heartbeat_body, pull_fields, send_fields, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.command import Command, encode
from pyromq.wire.record import Record, iter_records

GOLDEN = read_answers(Path(__file__).parent / "golden" / "golden_4.9.8.txt")
TOPIC = {"topic": "TopicTest", "queueId": 0}
FIRST = {"KEYS": "k1", "UNIQ_KEY": "7F000001000018B4AAC2000000000000", "TAGS": "TagA", "WAIT": "true"}
LOCK = b'{"clientId":"127.0.0.1@1","consumerGroup":"cg1","mqSet":[%b]}' % (
    b'{"brokerName":"broker-a","queueId":0,"topic":"TopicTest"}'
)
PROGRESS = {"consumerGroup": "cg1", **TOPIC}
A_DAY = {"beginTimestamp": 0, "endTimestamp": 9_000_000_000_000}


def without(fields: dict[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in fields.items() if key != name}


def pull(**changes: object) -> dict[str, object]:
    return pull_fields("TopicTest", "cg1", **changes)


@dataclass(frozen=True)
class Step:
    """One request of the recording; the answer's name tells which."""

    name: str
    code: int
    fields: dict[str, object] | None = None
    body: bytes = b""
    serializer: Serializer = Serializer.JSON


STEPS = [
    Step("unsupported br", 9999),
    Step("all topics", Code.GET_ALL_TOPIC_CONFIG),
    Step("all subgroups", Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
    Step("max offset", Code.GET_MAX_OFFSET, TOPIC),
    Step("send v2", Code.SEND_MESSAGE_V2, send_v2_fields("TopicTest", FIRST), b"hello"),
    Step(
        "send v1 bin",
        Code.SEND_MESSAGE,
        send_fields("TopicTest", {"TAGS": "TagB"}, queueId=1),
        b"hi",
        Serializer.ROCKETMQ,
    ),
    Step("pull", Code.PULL_MESSAGE, pull()),
    Step("pull miss", Code.PULL_MESSAGE, pull(queueOffset=1)),
    Step("pull over", Code.PULL_MESSAGE, pull(queueOffset=100)),
    Step("pull badqueue", Code.PULL_MESSAGE, pull(queueId=9)),
    Step("pull badtopic", Code.PULL_MESSAGE, pull_fields("NoSuch", "cg1")),
    Step("pull sqlbad", Code.PULL_MESSAGE, pull(queueId=1)),
    Step("qoffset", Code.QUERY_CONSUMER_OFFSET, PROGRESS),
    Step("consumerlist", Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "cg1"}),
    Step("topicstats", Code.GET_TOPIC_STATS_INFO, {"topic": "TopicTest"}),
    Step("consumestats", Code.GET_CONSUME_STATS, {"consumerGroup": "cg1"}),
    Step("lock", Code.LOCK_BATCH_MQ, None, LOCK),
    Step("illegal topic", Code.SEND_MESSAGE_V2, send_v2_fields("bad topic"), b"x"),
    Step("bad queue send", Code.SEND_MESSAGE_V2, send_v2_fields("TopicTest", queueId=77), b"x"),
    Step("auto create", Code.SEND_MESSAGE_V2, send_v2_fields("AutoTopic"), b"x"),
    Step("queryMsg", Code.QUERY_MESSAGE, {"topic": "TopicTest", "key": "k1", "maxNum": 32, **A_DAY}),
    Step("view", Code.VIEW_MESSAGE_BY_ID, {"offset": 0}),
    Step("searchoffset", Code.SEARCH_OFFSET_BY_TIMESTAMP, {**TOPIC, "timestamp": 0}),
    Step("earliest", Code.GET_EARLIEST_MSG_STORETIME, TOPIC),
    Step("update offset", Code.UPDATE_CONSUMER_OFFSET, {**PROGRESS, "commitOffset": 1}),
    Step("qoffset2", Code.QUERY_CONSUMER_OFFSET, PROGRESS),
    Step("consumer conn", Code.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "cg1"}),
    Step("producer conn", Code.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "pg1"}),
    Step("all offsets", Code.GET_ALL_CONSUMER_OFFSET),
    Step("sys topics br", Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER),
]
#: Answers whose body is records rather than text.
RECORDS = ("pull", "pull sqlbad", "queryMsg", "view")


@dataclass(frozen=True)
class Ours:
    """What our broker answered, with its own port and the client's address."""

    header: bytes
    body: bytes
    port: int


async def replay(folder: Path) -> dict[str, Ours]:
    store = StoreSettings(
        store_path_root_dir=str(folder), mapped_file_size_commit_log=16 * MIB, max_index_num=200_000
    )
    clock = ManualClock()
    broker = Broker(BrokerProcess(broker=BrokerSettings(listen_port=0), store=store), clock=clock)
    await broker.start()
    try:
        return await ask_all(broker, clock)
    finally:
        await broker.close()


async def ask_all(broker: Broker, clock: ManualClock) -> dict[str, Ours]:
    answers: dict[str, Ours] = {}
    async with (
        WireClient(broker.address) as client,
        WireClient(broker.address, serializer=Serializer.ROCKETMQ) as binary_client,
        WireClient(broker.address) as member,
    ):
        await client.ask(Code.UPDATE_AND_CREATE_TOPIC, topic_fields("TopicTest", 4))
        # The first look for undecided transactions, a minute after the start, creates the half topic.
        clock.advance(60_000)
        await aeventually(lambda: has_topic(client, "RMQ_SYS_TRANS_HALF_TOPIC"))
        for step in STEPS:
            if step.name == "topicstats":
                answers["heartbeat"] = await join_and_leave(member, broker.port)
                # Who has just left gets no lock (`docs/limits.md`); the recorded client had not.
                clock.advance(60_000)
            asker = client if step.serializer == Serializer.JSON else binary_client
            opaque = GOLDEN[step.name].command.opaque
            answer = await asker.ask(step.code, step.fields, step.body, opaque=opaque)
            answers[step.name] = Ours(asker.raw_headers[opaque], answer.body, broker.port)
    return answers


async def has_topic(client: WireClient, topic: str) -> bool:
    return topic.encode() in (await client.ask(Code.GET_ALL_TOPIC_CONFIG)).body


def topic_fields(topic: str, queue_count: int) -> dict[str, object]:
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": queue_count,
        "writeQueueNums": queue_count,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "order": False,
    }


async def join_and_leave(member: WireClient, port: int) -> Ours:
    """Be in a producer and a consumer group, leave the second one, and return what was pushed."""
    body = heartbeat_body("127.0.0.1@1", "cg1", {"TopicTest": "*"}, producer_group="pg1")
    await member.ask(Code.HEART_BEAT, None, body)
    await aeventually(lambda: member.pushed)
    await member.ask(Code.UNREGISTER_CLIENT, {"clientID": "127.0.0.1@1", "consumerGroup": "cg1"})
    return Ours(header_of(member.pushed[0]), member.pushed[0].body, port)


def header_of(command: Command) -> bytes:
    frame = encode(command)
    return frame[8 : len(frame) - len(command.body)]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ours]:
    return asyncio.run(replay(tmp_path_factory.mktemp("golden")))


def plain(text: bytes) -> bytes:
    """Return text without what differs from one run to the next."""
    text = re.sub(rb"127\.0\.0\.1:\d+", b"127.0.0.1:PORT", text)
    return re.sub(rb"\b1[67]\d{11}\b", b"TIME", text)


def with_port(text: bytes, port: int) -> bytes:
    """Put the recorded broker's port, 10911, in the place of ours in message ids."""
    return text.replace(b"7F000001%08X" % port, b"7F000001%08X" % 10911)


def same_for_all(record: Record) -> Record:
    return msgspec.structs.replace(
        record, born_host=bytes(8), store_host=bytes(8), stored_at_ms=0, born_at_ms=0
    )


def parametrize(names: list[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return pytest.mark.parametrize("golden", [GOLDEN[name] for name in names], ids=names)


@parametrize([step.name for step in STEPS])
def test_the_header_of_an_answer_is_rocketmqs(golden: GoldenAnswer, ours: dict[str, Ours]) -> None:
    answer = ours[golden.name]
    assert plain(with_port(answer.header, answer.port)) == plain(golden.header)


@parametrize([step.name for step in STEPS if step.name not in RECORDS])
def test_the_body_of_an_answer_is_rocketmqs(golden: GoldenAnswer, ours: dict[str, Ours]) -> None:
    expected, body = plain(golden.body), plain(ours[golden.name].body)
    assert body[: len(expected)] == expected
    assert golden.is_cut or len(body) == len(expected)


@parametrize(list(RECORDS))
def test_the_records_of_an_answer_are_rocketmqs(golden: GoldenAnswer, ours: dict[str, Ours]) -> None:
    body = ours[golden.name].body
    expected = [same_for_all(record) for record in iter_records(golden.body)]
    assert [same_for_all(record) for record in iter_records(body)] == expected
    assert len(body) == len(golden.body)


def test_the_notification_of_a_changed_group_is_rocketmqs(ours: dict[str, Ours]) -> None:
    without_opaque = re.compile(rb'"opaque":\d+')
    expected = without_opaque.sub(b"", GOLDEN["heartbeat"].header)
    assert without_opaque.sub(b"", ours["heartbeat"].header) == expected


async def test_a_missing_field_is_a_system_error_as_with_rocketmq(tmp_path: Path) -> None:
    # The remark is ours: 4.9.8's is the trace of a null pointer.
    store = StoreSettings(store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=1 * MIB)
    broker = Broker(BrokerProcess(broker=BrokerSettings(listen_port=0), store=store))
    await broker.start()
    async with WireClient(broker.address) as client:
        answer = await client.ask(Code.SEND_MESSAGE_V2, without(send_v2_fields("TopicTest"), "e"), b"x")
    await broker.close()

    golden = GOLDEN["missing field"].command
    assert (answer.code, answer.ext, answer.body) == (golden.code, golden.ext, golden.body)
