"""The kernel's frames of plain sends, and what it makes of answers, are those of the plan, byte for byte."""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from played_broker import answer_to

from pyromq.client.client_session import Session
from pyromq.client.plans import send_plans
from pyromq.client.producer.outgoing import Outgoing, prepare
from pyromq.client.signing import signer
from pyromq.codes import CommandFlag, ResponseCode, Serializer
from pyromq.config.settings import ClientSettings
from pyromq.errors import MessageIllegal, RequestTimeout
from pyromq.kernel import IS_COMPILED
from pyromq.model import Message, SendResult
from pyromq.wire.command import Command, encode
from pyromq.wire.message_id import UniqueIds

if not IS_COMPILED:
    pytest.skip("plain sends are compiled", allow_module_level=True)

from plain_stage import PlainStage

from pyromq._kernel.client.unique_ids import UniqueIds as KernelIds

SIGNED = ClientSettings(access_key="web-shop", secret_key="web-shops-secret")
TOKEN = ClientSettings(access_key="web-shop", secret_key="web-shops-secret", security_token="token")
SETTINGS = [
    ClientSettings(),
    SIGNED,
    TOKEN,
    ClientSettings(unit_mode=True, vip_channel_enabled=True),
    ClientSettings(compress_msg_body_over_howmuch=1 << 20),
]


def planned_frame(session: Session, begun: Any, message: Message) -> bytes:
    """Return the frame that the plan would send in the place of a plain one."""
    outgoing = prepare(message, begun.message_id, session.settings)
    command = send_plans.command_of(session, outgoing, begun.lane.wire_queue)
    command.opaque = begun.opaque
    sign = signer(session.settings)
    if sign is not None:
        sign(command)
    return encode(command)


usual = st.text(st.characters(codec="utf-8", min_codepoint=0x21), min_size=1, max_size=30)
odd = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ["", "a b", " a", '"quoted"', "back\\slash", "\x7f", "a\x01b", "\ud800", "x" * 300]
)
texts = st.one_of(usual, usual, usual, usual, usual, odd)
words = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=9)
keys = st.one_of(words, words, words, words, odd)
names = st.sampled_from(["city", "age", "Å", '"', "b", "Aa", "BB"])
own = st.sampled_from(["TAGS", "UNIQ_KEY", "TRAN_MSG", "MSG_TYPE", "WAIT", ""])
messages = st.builds(
    Message,
    topic=st.just("orders"),
    body=st.binary(min_size=1, max_size=200) | st.binary(max_size=1),
    tags=st.none() | texts,
    keys=st.just(()) | keys | st.lists(keys, max_size=3),
    properties=st.dictionaries(st.one_of(names, names, names, names, own), texts, max_size=3),
    flag=st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(0, 9) | st.just(1 << 31),
    delay_level=st.sampled_from([0] * 9 + [3]),
    wait_stored=st.sampled_from([True] * 9 + [False]),
)


@pytest.mark.parametrize("client", SETTINGS, ids=["plain", "signed", "with a token", "unit", "large"])
def test_a_frame_is_the_plans(client: ClientSettings) -> None:
    """Whatever the message: its frame is the plan's, or it is left to the plan."""
    count = {"plain": 0, "left": 0}

    async def check(message: Message) -> None:
        stage = PlainStage(client)
        begun = stage.begin(message)
        if begun is None or begun.frame is None:
            count["left"] += 1
            return
        count["plain"] += 1
        assert begun.frame == planned_frame(stage.session, begun, message)
        stage.link._write()
        assert b"".join(stage.transport.writes) == begun.frame

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(messages)
    def run(message: Message) -> None:
        asyncio.run(check(message))

    run()
    # Links at other addresses are not there.
    assert client.vip_channel_enabled or count["plain"] > 10
    assert count["left"] > 5


async def test_usual_messages_are_plain() -> None:
    stage = PlainStage()
    for message in (
        Message("orders", b"x"),
        Message("orders", b"x", tags="paid"),
        Message("orders", b"x", keys="a b"),
        Message("orders", b"x", keys=["a", "b"], flag=-1),
        Message("orders", b"x", keys=("a",), tags="paid", properties={"b": "1", "a": 'Åbo "x" \\'}),
        Message("orders", b"x" * 4_095),
    ):
        begun = stage.begin(message)
        assert begun is not None
        assert begun.frame == planned_frame(stage.session, begun, message)


async def test_a_namespace_is_in_frame_and_result() -> None:
    client = ClientSettings(namespace="north")
    stage = PlainStage(client, topic="orders")
    stage.stage.routes["north%orders"] = stage.stage.routes["orders"]
    deadline = stage.session.deadline(None, 3_000)
    stage.stage.run(send_plans.publish_queues(stage.session, "orders", deadline))

    begun = stage.begin(Message("orders", b"x"))

    assert begun is not None
    assert begun.frame == planned_frame(stage.session, begun, Message("orders", b"x"))
    assert begun.lane.wire_queue.topic == "north%orders"
    assert begun.lane.queue.topic == "orders"


async def test_a_message_that_is_changed_after_it_left_is_gone_on_with_as_it_left() -> None:
    stage = PlainStage()
    message = Message("orders", b"x", properties={"city": "Turku"}, flag=3)
    begun = stage.begin(message)
    message.properties["city"], message.body, message.flag = "Oulu", b"y", 4
    sent = stage.stage.calls

    plan = stage.teacher.rest(message, begun, RequestTimeout("late"), stage.session.deadline(None, 3_000))
    stage.stage.run(plan)

    ext = sent[-1].command.ext
    assert ext is not None
    assert sent[-1].command.body == b"x"
    assert (ext["h"], "Turku" in ext["i"], begun.message_id in ext["i"]) == ("3", True, True)


async def test_what_is_known_of_a_topic_is_forgotten_when_a_route_changes() -> None:
    stage = PlainStage()
    message = Message("orders", b"x")
    assert stage.begin(message) is not None

    stage.session.routes.mark_stale("orders")

    assert not stage.kernel.knows_topic("orders")
    # A route that led nowhere is not learnt before it was asked for again.
    assert stage.begin(message) is None


async def test_without_a_connection_the_queue_has_its_turn_all_the_same() -> None:
    stage = PlainStage()
    first = stage.begin(Message("orders", b"x"))
    stage.links.clear()
    second = stage.begin(Message("orders", b"x"))

    assert second is not None
    assert second.frame is None
    queues = stage.session.routes.get("orders").write_queues  # type: ignore[union-attr]
    places = [queues.index(begun.lane.wire_queue) for begun in (first, second)]
    assert places[1] == (places[0] + 1) % len(queues)


# Answers


def results_of(stage: PlainStage, begun: Any, command: Command, message: Message) -> tuple[Any, SendResult]:
    """Return what the future was told, and what the plan makes of the answer."""
    stage.link.data_received(encode(command))
    outgoing = Outgoing(message, "orders", message.body, "", begun.message_id)
    plan = send_plans._result(stage.session, outgoing, begun.lane.wire_queue, command)
    return begun.answer.result(), plan


@pytest.mark.parametrize("serializer", Serializer)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"MSG_REGION": "north", "TRACE_ON": "false"},
        {"MSG_REGION": "", "TRACE_ON": "true"},
        {"transactionId": "T"},
        {"recallHandle": "aGFuZGxl", "batchUniqId": "B"},
        {"queueOffset": "9007199254740993"},
        {"unknown": "field"},
        {"msgId": "", "transactionId": ""},
    ],
)
async def test_a_result_is_the_plans(changes: dict[str, str], serializer: int) -> None:
    stage, message = PlainStage(), Message("orders", b"x")
    begun = stage.begin(message)
    ext = {"queueId": str(begun.lane.wire_queue.queue_id), "msgId": "ID", "queueOffset": "5", **changes}
    command = Command(0, opaque=begun.opaque, flag=CommandFlag.RESPONSE, ext=ext, serializer=serializer)

    told, planned = results_of(stage, begun, command, message)

    assert type(told) is SendResult
    assert told == planned
    assert hash(told) == hash(planned)
    assert not stage.link.waiting


@pytest.mark.parametrize(
    ("code", "remark", "changes"),
    [
        (ResponseCode.FLUSH_DISK_TIMEOUT, None, {}),
        (ResponseCode.SYSTEM_BUSY, "busy", {}),
        (0, "a remark", {}),
        (0, None, {"queueId": "70000"}),
        (0, None, {"queueOffset": "0x5"}),
        (0, None, {"TRACE_ON": "perhaps"}),
        (0, None, {"msgId": "é"}),
    ],
)
async def test_another_answer_is_told_as_it_is(
    code: int, remark: str | None, changes: dict[str, str]
) -> None:
    stage = PlainStage()
    begun = stage.begin(Message("orders", b"x"))
    sent = Command(0, opaque=begun.opaque, ext={"e": str(begun.lane.wire_queue.queue_id)})
    frame = answer_to(sent, code, remark, **changes)

    stage.link.data_received(frame)

    told = begun.answer.result()
    assert type(told) is Command
    assert told.code == code


async def test_answers_of_many_sends_in_any_order_and_in_any_pieces() -> None:
    stage = PlainStage()
    begun = [stage.begin(Message("orders", b"%d" % number)) for number in range(50)]
    frames = []
    for number, one in enumerate(begun):
        sent = Command(0, opaque=one.opaque, ext={"e": str(one.lane.wire_queue.queue_id)})
        frames.append(answer_to(sent, queueOffset=str(number)))
    # One in between is nobody's, and one is a refusal.
    frames[20] = answer_to(Command(0, opaque=1_000_000, ext={"e": "0"})) + frames[20]
    data = b"".join(reversed(frames))

    for at in range(0, len(data), 333):
        stage.link.data_received(data[at : at + 333])

    assert [one.answer.result().queue_offset for one in begun] == list(range(50))
    assert not stage.link.waiting


async def test_an_answer_to_a_send_that_nobody_waits_for_is_dropped() -> None:
    stage = PlainStage()
    begun, other = stage.begin(Message("orders", b"x")), stage.begin(Message("orders", b"y"))
    begun.answer.cancel()
    for one in (begun, other):
        sent = Command(0, opaque=one.opaque, ext={"e": str(one.lane.wire_queue.queue_id)})
        stage.link.data_received(answer_to(sent))

    assert other.answer.result().status.value == "SEND_OK"
    assert not stage.link.waiting


# Ids


@pytest.mark.row("MM-03")
@pytest.mark.parametrize("address", ["127.0.0.1", "2001:db8::1"])
def test_unique_ids_are_those_of_python(address: str) -> None:
    times = [0, 5, 1_700_000_000_000, 1_700_000_000_001, 1_699_000_000_000, 1_701_388_800_000, 1 << 42]
    python, compiled = UniqueIds(address, 0x12345, 0x18B4AAC2), KernelIds(address, 0x12345, 0x18B4AAC2)

    assert [compiled.next(time) for time in times] == [python.next(time) for time in times]
    many = {compiled.next(1_700_000_000_000) for _ in range(65_536)}
    assert len(many) == 65_536


async def test_what_the_plan_refuses_is_never_plain() -> None:
    stage = PlainStage()
    for message in (
        Message("orders", b""),
        Message("orders", b"x", keys=["a b"]),
        Message("orders", b"x", properties={"TAGS": "x"}),
        Message("orders", b"x", properties={"city": "a\x01b"}),
        Message("orders", b"x", properties={"city": "x" * 40_000}),
        Message("SCHEDULE_TOPIC_XXXX", b"x"),
    ):
        with pytest.raises(MessageIllegal):
            prepare(message, "U", stage.session.settings)
        assert stage.begin(message) is None
