"""The generator's slots, in Python and compiled: the same tests, and the same bytes for both."""

import importlib
import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.bench import slots as pure
from pyromq.bench.frames import (
    OPAQUE_FIRST,
    Queue,
    SendTemplate,
    end_request,
    pull_template,
    read_answer,
    read_next_offset,
    send_back_template,
    send_template,
    signed_templates,
)
from pyromq.bench.histogram import bucket_of
from pyromq.codes import CommandFlag, RequestCode, ResponseCode, Serializer, SysFlag
from pyromq.errors import RemoteProtocolError
from pyromq.wire import properties, signature
from pyromq.wire.command import Command, CommandReader, encode
from pyromq.wire.record import Record, encode_host, encode_record

BORN_MS = 1_763_000_000_123
PREFIX = "7F0000010A0B0C0D0E0F"
QUEUES = [Queue("a:1", "broker-a", f"topic-{number}", number) for number in range(12)]


def compiled() -> ModuleType:
    """Return the kernel's version; whoever has no compiler has nothing to compare."""
    try:
        module = importlib.import_module("pyromq._kernel.client.load")
    except ImportError:
        pytest.skip("the kernel is not compiled")
    module.read_with(read_answer, read_next_offset, end_request)
    return module


@pytest.fixture(params=["pure", "compiled"])
def load(request: pytest.FixtureRequest) -> Any:
    return pure if request.param == "pure" else compiled()


def sender(load: Any, slots: int = 3, *, batch: int = 1, is_stamped: bool = False) -> tuple[Any, Any]:
    rows = [send_template(queue, size=20, batch=batch, prefix=PREFIX) for queue in QUEUES]
    counts = load.Counts()
    counts.until_ns = 2**62
    return load.SendSlots(load.Templates(rows, 5), counts, slots, batch=batch, is_stamped=is_stamped), counts


def sender_of(load: Any, rows: list[SendTemplate], slots: int, kind: str = "SendSlots") -> tuple[Any, Any]:
    counts = load.Counts()
    counts.until_ns = 2**62
    made = getattr(load, kind)(load.Templates(rows, 5), counts, slots, batch=1, is_stamped=False)
    return made, counts


def halves(load: Any, slots: int) -> tuple[Any, Any]:
    rows = [send_template(QUEUES[0], size=20, batch=1, prefix=PREFIX, is_half=True)]
    return sender_of(load, rows, slots, "TransactionSlots")


def reader(load: Any, queues: list[list[int]], *, is_following: bool, is_repeated: bool) -> tuple[Any, Any]:
    counts = load.Counts()
    counts.until_ns = 2**62
    pulls = [
        [
            pull_template(QUEUES[queue], OPAQUE_FIRST + number, queue * 10, count=32, hold_ms=0)
            for queue in row
        ]
        for number, row in enumerate(queues)
    ]
    return load.PullSlots(pulls, counts, is_following=is_following, is_repeated=is_repeated), counts


def commands(frames: bytes) -> list[Command]:
    incoming = CommandReader()
    incoming.feed(frames)
    found = []
    while command := incoming.next_command():
        found.append(command)
    assert incoming.pending_bytes == 0
    return found


def answer(
    slot: int, code: int = 0, *, following: int = 57, body: bytes = b"", serializer: int = Serializer.JSON
) -> bytes:
    fields = {"nextBeginOffset": str(following), "msgId": 'say "opaque":1234567890', "queueOffset": "4"}
    return encode(
        Command(
            code,
            opaque=OPAQUE_FIRST + slot,
            flag=CommandFlag.RESPONSE,
            ext=fields,
            body=body,
            serializer=serializer,
        )
    )


def record(stamp: int, *, flags: int = 0) -> bytes:
    return encode_record(
        Record(
            queue_id=0,
            flag=0,
            queue_offset=0,
            position=0,
            sys_flag=flags,
            born_at_ms=0,
            born_host=encode_host("::1" if flags & 0x10 else "127.0.0.1", 1),
            stored_at_ms=0,
            store_host=encode_host("::1" if flags & 0x20 else "127.0.0.1", 1),
            body=struct.pack(">q", stamp) + b"rest",
            topic="topic",
            properties="A\x01b",
        )
    )


def offsets(frames: bytes) -> list[tuple[str, str]]:
    return [((one.ext or {})["topic"], (one.ext or {})["queueOffset"]) for one in commands(frames)]


def test_a_connection_has_no_more_under_way_than_it_has_slots(load: Any) -> None:
    slots, counts = sender(load, 3)

    first, second = slots.fill(2, 0, BORN_MS), slots.fill(100, 0, BORN_MS)

    assert [command.opaque - OPAQUE_FIRST for command in commands(first + second)] == [0, 1, 2]
    assert slots.fill(100, 0, BORN_MS) == b""
    assert (counts.under_way, counts.sent) == (3, 3)


def test_sends_go_to_one_queue_after_the_other(load: Any) -> None:
    slots, _ = sender(load, 30)

    sent = [(command.ext or {})["b"] for command in commands(slots.fill(13, 0, BORN_MS))]

    assert sent == [*(queue.topic for queue in QUEUES), QUEUES[0].topic]


@pytest.mark.parametrize("cut", [1, 7, 100, 10_000])
def test_answers_are_taken_however_they_are_cut(load: Any, cut: int) -> None:
    slots, counts = sender(load, 20)
    slots.fill(20, 1_000, BORN_MS)
    whole = b"".join(answer(number, 2 if number % 4 == 3 else 0) for number in range(20))

    for at in range(0, len(whole), cut):
        slots.feed(memoryview(slots.rest + whole[at : at + cut]), 11_000)

    assert (counts.messages, counts.refused, counts.under_way) == (15, {2: 5}, 0)
    assert counts.latencies()[0][10] == 15


def test_only_what_ended_in_the_measured_time_is_measured(load: Any) -> None:
    slots, counts = sender(load, 1, batch=4)
    counts.from_ns, counts.until_ns = 1_000_000, 2_000_000

    for now_ns in (999_999, 1_000_000, 1_999_999, 2_000_000):
        slots.fill(1, 0, BORN_MS)
        slots.feed(memoryview(answer(0)), now_ns)

    assert (counts.messages, counts.messages_in_all, sum(counts.latencies()[0])) == (8, 16, 2)


def test_a_paced_request_counts_from_when_it_was_due(load: Any) -> None:
    slots, counts = sender(load, 1)
    slots.pace(1_000_000, 1_000.0, 1, 2)

    first = slots.fill_due(1_005_500, 100, BORN_MS)
    slots.feed(memoryview(answer(0)), 1_101_000)
    second = slots.fill_due(1_101_000, 4, BORN_MS)
    slots.feed(memoryview(answer(0)), 1_203_000)

    assert [len(commands(frames)) for frames in (first, second)] == [1, 1]
    assert [number for number, times in enumerate(counts.latencies()[0]) if times] == [
        bucket_of(100),
        bucket_of(200),
    ]
    assert counts.late_ns == 98_000
    assert slots.fill_due(2_000_000, 4, BORN_MS) == b""


def test_what_is_not_due_is_not_sent(load: Any) -> None:
    slots, _ = sender(load, 8)
    slots.pace(1_000, 1_000.0, 0, 1)

    sent = [len(commands(slots.fill_due(now_ns, 100, BORN_MS))) for now_ns in (999, 1_000, 3_999, 4_000)]

    assert sent == [0, 1, 2, 1]


def test_a_reader_goes_through_its_queues_and_stops_at_the_end_of_the_last(load: Any) -> None:
    slots, counts = reader(load, [[5, 6]], is_following=False, is_repeated=False)

    asked = [slots.fill(9, 0, 0)]
    for code in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_NOT_FOUND):
        slots.feed(memoryview(answer(0, code)), 1)
        asked.append(slots.fill(9, 0, 0))

    assert [offsets(frames) for frames in asked] == [
        [("topic-5", "50")],
        [("topic-5", "57")],
        [("topic-6", "60")],
        [],
    ]
    assert (counts.messages, counts.under_way, counts.refused) == (7, 0, {})


def test_a_reader_that_repeats_begins_anew(load: Any) -> None:
    slots, _ = reader(load, [[5]], is_following=False, is_repeated=True)
    slots.fill(9, 0, 0)

    slots.feed(memoryview(answer(0, ResponseCode.PULL_NOT_FOUND)), 1)

    assert offsets(slots.fill(9, 0, 0)) == [("topic-5", "50")]


def test_a_follower_takes_the_time_of_each_message_and_is_not_waited_for(load: Any) -> None:
    slots, counts = reader(load, [[0]], is_following=True, is_repeated=False)
    slots.fill(0, 0, 0)
    body = record(1_000) + record(5_000, flags=0x10) + record(9_000, flags=0x30)

    slots.feed(memoryview(answer(0, following=3, body=body)), 20_000)

    assert counts.delivered_in_all == 3
    assert [number for number, times in enumerate(counts.arrivals()[0]) if times] == [11, 15, 19]
    assert (counts.under_way, counts.sent) == (0, 0)
    assert offsets(slots.fill(0, 0, 0)) == [("topic-0", "3")]


def test_a_delayed_message_counts_from_when_it_was_due(load: Any) -> None:
    slots, counts = reader(load, [[0]], is_following=True, is_repeated=False)
    counts.delay_ns = 1_000_000
    slots.fill(0, 0, 0)

    slots.feed(memoryview(answer(0, body=record(50_000) + record(95_000))), 1_080_000)

    assert [number for number, times in enumerate(counts.arrivals()[0]) if times] == [0, 30]
    assert counts.early_ns == 15_000


@pytest.mark.parametrize(
    "wrong", [b"HTTP/1.1 200 OK\r\n", answer(3), answer(-1), answer(0) + answer(0), b"\0\0\0\x10\0\0\1\0"]
)
def test_what_is_no_answer_to_a_request_is_refused(load: Any, wrong: bytes) -> None:
    slots, _ = sender(load, 3)
    slots.fill(1, 0, BORN_MS)

    with pytest.raises((RemoteProtocolError, ValueError)):
        slots.feed(memoryview(wrong), 1)


def test_messages_that_are_not_whole_are_refused(load: Any) -> None:
    slots, _ = reader(load, [[0]], is_following=True, is_repeated=False)
    slots.fill(0, 0, 0)

    with pytest.raises((RemoteProtocolError, ValueError)):
        slots.feed(memoryview(answer(0, body=record(1)[:-1])), 1)


# Other shapes ----------------------------------------------------------------------------------------------


def test_sends_with_binary_headers_have_opaques_of_their_own_and_are_answered_so(load: Any) -> None:
    rows = [send_template(QUEUES[0], size=20, batch=1, prefix=PREFIX, is_binary=True)]
    slots, counts = sender_of(load, rows, 3)

    sent = commands(slots.fill(9, 0, BORN_MS))
    slots.feed(memoryview(b"".join(answer(slot, serializer=Serializer.ROCKETMQ) for slot in (2, 0, 1))), 1)

    assert {(one.serializer, (one.ext or {})["g"]) for one in sent} == {(1, str(BORN_MS))}
    assert [one.opaque - OPAQUE_FIRST for one in sent] == [0, 1, 2]
    assert (counts.messages, counts.under_way) == (3, 0)


def test_a_message_has_a_key_of_its_own_besides_its_unique_id(load: Any) -> None:
    rows = [send_template(QUEUES[0], size=20, batch=1, prefix=PREFIX, has_keys=True)]
    slots, _ = sender_of(load, rows, 4)

    sent = [properties.decode((one.ext or {})["i"]) for one in commands(slots.fill(9, 0, BORN_MS))]

    ids = [fields[name] for fields in sent for name in ("UNIQ_KEY", "KEYS")]
    assert len(set(ids)) == 8
    assert {text[:20] for text in ids} == {PREFIX}


def test_a_signed_send_is_as_it_was_signed_but_for_its_opaque(load: Any) -> None:
    sign = signature.signer("shop", "a secret of the shop")
    rows = signed_templates(QUEUES, 20, sign, size=20, batch=1, prefix=PREFIX)
    slots, _ = sender_of(load, rows, 20)

    sent = commands(slots.fill(20, 0, BORN_MS))

    assert all(signature.is_signed(one.ext or {}, one.body, b"a secret of the shop") for one in sent)
    assert len({one.opaque for one in sent}) == len({(one.ext or {})["i"] for one in sent}) == 20
    assert [(one.ext or {})["b"] for one in sent[:13]] == [*(queue.topic for queue in QUEUES), "topic-0"]


def test_a_send_back_names_one_stored_message_after_the_other(load: Any) -> None:
    slots, counts = sender_of(load, [send_back_template("orders", at, level=1) for at in (7, 700)], 3)

    sent = commands(slots.fill(3, 0, BORN_MS))
    slots.feed(memoryview(answer(1)), 1)

    assert {one.code for one in sent} == {RequestCode.CONSUMER_SEND_MSG_BACK}
    assert [(one.ext or {})["offset"] for one in sent] == ["7", "700", "7"]
    assert (counts.messages, counts.under_way) == (1, 2)


def half_answer(slot: int, code: int = 0, serializer: int = Serializer.JSON) -> bytes:
    ext = {"msgId": f"7F00000100002A9F{3_000 + slot:016X}", "queueId": "0", "queueOffset": str(40 + slot)}
    return encode(Command(code, opaque=OPAQUE_FIRST + slot, flag=1, ext=ext, serializer=serializer))


@pytest.mark.parametrize("serializer", Serializer)
def test_a_half_that_is_stored_is_committed_and_counts_when_that_is_acknowledged(
    load: Any, serializer: int
) -> None:
    slots, counts = halves(load, 2)
    first = commands(slots.fill(9, 1_000, BORN_MS))

    slots.feed(memoryview(half_answer(1, serializer=serializer)), 5_000)
    [end] = commands(slots.fill(9, 6_000, BORN_MS))
    before = (counts.messages, counts.under_way)
    slots.feed(memoryview(answer(1)), 21_000)

    assert {(one.ext or {})["f"] for one in first} == {str(int(SysFlag.TRANSACTION_PREPARED))}
    assert (end.code, end.opaque) == (RequestCode.END_TRANSACTION, OPAQUE_FIRST + 1)
    fields = end.ext or {}
    assert (fields["tranStateTableOffset"], fields["commitLogOffset"]) == ("41", "3001")
    assert fields["commitOrRollback"] == str(int(SysFlag.TRANSACTION_COMMIT))
    assert before == (0, 2)
    assert (counts.messages, counts.under_way) == (1, 1)
    assert counts.latencies()[0][20] == 1
    assert [one.code for one in commands(slots.fill(9, 0, BORN_MS))] == [RequestCode.SEND_MESSAGE_V2]


def test_a_half_that_is_refused_is_not_committed_and_a_refused_commit_begins_anew(load: Any) -> None:
    slots, counts = halves(load, 1)

    asked = [commands(slots.fill(9, 0, BORN_MS))]
    for one in (answer(0, 2), half_answer(0), answer(0, 1)):
        slots.feed(memoryview(one), 1)
        asked.append(commands(slots.fill(9, 0, BORN_MS)))

    assert [[int(one.code) for one in some] for some in asked] == [[310], [310], [37], [310]]
    assert (counts.messages, counts.refused) == (0, {2: 1, 1: 1})


def test_a_half_whose_answer_does_not_say_where_it_is_ends_the_run(load: Any) -> None:
    slots, _ = halves(load, 1)
    slots.fill(9, 0, BORN_MS)

    with pytest.raises(RemoteProtocolError, match="half"):
        slots.feed(memoryview(encode(Command(0, opaque=OPAQUE_FIRST, flag=1))), 1)


def test_commits_leave_also_when_nothing_more_is_begun(load: Any) -> None:
    slots, _ = halves(load, 1)
    slots.pace(0, 1_000.0, 0, 1)
    slots.fill_due(0, 100, BORN_MS)

    slots.feed(memoryview(half_answer(0)), 1)

    assert [one.code for one in commands(slots.fill_due(0, 0, BORN_MS))] == [RequestCode.END_TRANSACTION]


# Both at once ----------------------------------------------------------------------------------------------


def state(counts: Any) -> list[Any]:
    names = ("messages", "messages_in_all", "delivered_in_all", "sent", "under_way", "late_ns", "early_ns")
    return [*(getattr(counts, name) for name in names), counts.refused, counts.latencies(), counts.arrivals()]


CODES = st.sampled_from([0, 0, 0, 2, 10, 19, 20, 21, 32_767, -1])
HEADERS = st.sampled_from(
    [
        b'{"code":0,"extFields":{"nextBeginOffset":"7"},"flag":1,"opaque":%d,"version":1}',
        b'{"code":0 ,"opaque":%d}',
        b'{"opaque":%d,"code":0}',
        b'{"code":19,"extFields":{"nextBeginOffset":"-1"},"opaque":%d}',
        b'{"code":0,"opaque":5,"opaque":%d}',
        b'{"code":0,"extFields":{"msgId":"7F00000100002A9F00000000000001F4","queueOffset":"3"},"opaque":%d}',
    ]
)


@st.composite
def any_answer(draw: st.DrawFn) -> bytes:
    slot = draw(st.integers(0, 5))
    if draw(st.booleans()):
        header = draw(HEADERS) % (OPAQUE_FIRST + slot)
        return struct.pack(">iI", len(header) + 4, len(header)) + header
    stamped = draw(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 16, 32, 48]))))
    return answer(
        slot,
        draw(CODES),
        following=draw(st.integers(0, 2**60)),
        body=b"".join(record(stamp, flags=flags) for stamp, flags in stamped),
        serializer=draw(st.sampled_from([Serializer.JSON, Serializer.ROCKETMQ])),
    )


@st.composite
def any_bytes(draw: st.DrawFn) -> bytes:
    whole = b"".join(draw(st.lists(any_answer(), max_size=6)))
    if whole and draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(whole) - 1))
        whole = whole[:at] + draw(st.binary(max_size=3)) + whole[at + draw(st.integers(0, 3)) :]
    return whole


def drive(load: Any, kind: str, steps: list[tuple[bytes, int, int]]) -> list[Any]:
    """Feed and fill in turn; return all that can be seen of it, up to the first refusal."""
    if kind == "send":
        slots, counts = sender(load, 6, batch=2, is_stamped=True)
    elif kind == "transaction":
        slots, counts = halves(load, 6)
    else:
        slots, counts = reader(
            load,
            [[0, 1], [2], [3], [4, 5, 6], [7], [8]],
            is_following=kind == "follow",
            is_repeated=kind == "again",
        )
    counts.from_ns, counts.until_ns, counts.delay_ns = 1_000, 50_000_000, 500
    seen: list[Any] = []
    if kind == "send":
        slots.pace(10, 333.3, 1, 3)
    for data, now_ns, most in steps:
        if kind == "send" and most % 2:
            seen.append(slots.fill_due(now_ns, most * 3, BORN_MS))
        else:
            seen.append(slots.fill(most, now_ns, BORN_MS))
        try:
            slots.feed(memoryview(slots.rest + data), now_ns)
        except (ValueError, RemoteProtocolError):
            return [*seen, "refused", state(counts)]
        seen.append((slots.rest, state(counts)))
    return seen


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(["send", "transaction", "read", "again", "follow"]),
    st.lists(st.tuples(any_bytes(), st.integers(0, 100_000_000), st.integers(0, 9)), max_size=6),
)
def test_both_versions_say_and_count_the_same(kind: str, steps: list[tuple[bytes, int, int]]) -> None:
    assert drive(compiled(), kind, steps) == drive(pure, kind, steps)
