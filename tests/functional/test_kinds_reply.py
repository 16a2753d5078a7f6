"""Request and reply: the reply is pushed to whoever asked."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import ManualStage, Peer, running_stage

from pyromq.codes import RequestCode, ResponseCode
from pyromq.net.routes import Answer
from pyromq.wire import properties as names
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id

TOPIC = "DefaultCluster_REPLY_TOPIC"
V1 = [
    "producerGroup",
    "topic",
    "defaultTopic",
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "properties",
    "reconsumeTimes",
    "unitMode",
]
V2 = dict(zip(V1, "abcdefghijk", strict=True))
CODES = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[ManualStage]:
    async with running_stage(tmp_path) as stage:
        yield stage


async def reply(
    replier: Peer, code: int = CODES[1], *, to: str | None = "asker@1", topic: str = TOPIC, queue_id: int = 0
) -> Command:
    properties = {names.CORRELATION_ID: "c-1", names.MSG_TYPE: "reply", names.TTL: "3000"}
    if to is not None:
        properties[names.REPLY_TO_CLIENT] = to
    fields: dict[str, object] = {
        "producerGroup": "CLIENT_INNER_PRODUCER",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": queue_id,
        "sysFlag": 0,
        "bornTimestamp": 1_700_000_000_000,
        "flag": 0,
        "properties": names.encode(properties),
        "reconsumeTimes": 0,
        "unitMode": False,
    }
    if code == RequestCode.SEND_REPLY_MESSAGE_V2:
        fields = {V2[name]: value for name, value in fields.items()}
    return await replier.request(code, fields, body=b"42")


@pytest.mark.parametrize("code", CODES)
async def test_a_reply_is_pushed_to_its_requester(stage: ManualStage, code: int) -> None:
    asker, replier = stage.connect("asker@1"), stage.connect("replier@2")
    await asker.heartbeat(producer="askers")

    answer = await reply(replier, code)

    assert answer.code == ResponseCode.SUCCESS
    (pushed,) = asker.asked_for(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
    assert pushed.body == b"42"
    assert not pushed.is_oneway
    ext = pushed.ext or {}
    assert (ext["topic"], ext["producerGroup"], ext["queueId"]) == (TOPIC, "CLIENT_INNER_PRODUCER", "0")
    assert ext["storeHost"] == stage.address
    assert ext["bornHost"].startswith("127.0.0.1:")
    assert int(ext["storeTimestamp"]) == stage.clock.now_ms()
    properties = names.decode(ext["properties"])
    assert properties[names.CORRELATION_ID] == "c-1"
    assert properties[names.PUSH_REPLY_TIME] == str(stage.clock.now_ms())


async def test_a_pushed_reply_is_stored_too_and_the_answer_says_where(stage: ManualStage) -> None:
    asker, replier = stage.connect("asker@1"), stage.connect("replier@2")
    await asker.heartbeat(producer="askers")

    ext = (await reply(replier)).ext or {}

    (record,) = await replier.stored(TOPIC)
    assert record.body == b"42"
    assert (ext["queueId"], ext["queueOffset"]) == ("0", "0")
    assert parse_offset_message_id(ext["msgId"]).position == record.position
    assert (ext["MSG_REGION"], ext["TRACE_ON"]) == ("DefaultRegion", "true")
    assert names.PUSH_REPLY_TIME not in record.properties


async def test_a_reply_that_is_not_stored_has_the_id_zero(tmp_path: Path) -> None:
    async with running_stage(tmp_path, store_reply_message_enable=False) as stage:
        asker, replier = stage.connect("asker@1"), stage.connect("replier@2")
        await asker.heartbeat(producer="askers")

        ext = (await reply(replier)).ext or {}

        assert (ext["msgId"], ext["queueId"], ext["queueOffset"]) == ("0", "0", "0")
        assert await replier.stored(TOPIC) == []


async def test_a_requester_that_is_not_here_is_named_and_the_reply_is_stored(stage: ManualStage) -> None:
    replier = stage.connect("replier@2")

    answer = await reply(replier, to="gone@3")

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "push reply message fail, channel of <gone@3> not found."
    assert len(await replier.stored(TOPIC)) == 1


async def test_a_reply_without_a_requester_is_refused(stage: ManualStage) -> None:
    answer = await reply(stage.connect(), to=None)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "reply message properties[REPLY_TO_CLIENT] is null"


async def test_a_requester_that_does_not_take_the_reply_makes_it_fail(stage: ManualStage) -> None:
    asker, replier = stage.connect("asker@1"), stage.connect("replier@2")
    await asker.heartbeat(producer="askers")
    asker.answer = lambda _command: Answer(ResponseCode.SYSTEM_ERROR, "nobody waits for it")

    answer = await reply(replier)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "push reply message to asker@1fail."


async def test_a_requester_that_leaves_while_it_is_pushed_makes_it_fail(stage: ManualStage) -> None:
    asker, replier = stage.connect("asker@1"), stage.connect("replier@2")
    await asker.heartbeat(producer="askers")
    leaving: list[asyncio.Task[None]] = []

    def leave(_command: Command) -> None:
        leaving.append(asyncio.get_running_loop().create_task(asker.close()))

    asker.answer = leave

    answer = await reply(replier)

    assert answer.remark == "push reply message to asker@1fail."
    await asyncio.gather(*leaving)


async def test_a_reply_to_a_queue_that_does_not_exist_is_refused(stage: ManualStage) -> None:
    answer = await reply(stage.connect(), queue_id=5)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("request queueId[5] is illegal, ")
    assert (answer.ext or {})["MSG_REGION"] == "DefaultRegion"


async def test_a_reply_to_an_unknown_topic_creates_it_like_a_send(stage: ManualStage) -> None:
    asker, replier = stage.connect("asker@1"), stage.connect("replier@2")
    await asker.heartbeat(producer="askers")

    assert (await reply(replier, topic="other_REPLY_TOPIC")).code == ResponseCode.SUCCESS

    assert len(await replier.stored("other_REPLY_TOPIC")) == 1
