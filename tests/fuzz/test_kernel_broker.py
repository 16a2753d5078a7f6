"""One meaning, two speeds: the same bytes to a broker with the kernel and to one without.

Both get the same frames in the same pieces at the same time. Every byte that they answer is the same, and so
is every byte that they leave on the disk, up to the port that the system gave each of them.
"""

import asyncio
import logging
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from effort import times
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_sides import Side, frame

from pyromq.codes import PullFlag, RequestCode, Serializer, SysFlag
from pyromq.kernel import WHY_PURE
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import batch_body, pull_fields, send_fields, send_v2_fields
from pyromq.wire import properties as names
from pyromq.wire.batch import BatchUnit, encode_batch
from pyromq.wire.command import Command, CommandReader, encode

pytestmark = pytest.mark.skipif(WHY_PURE is not None, reason=f"there is nothing to compare: {WHY_PURE}")

#: What the clock says at first, and stays near.
START_MS = ManualClock().now_ms()
TOPICS = ("orders", "payments_eu-1", "%RETRY%readers")
VALUES = st.sampled_from(
    ["a", "tag-a", "TagB", "0", "12", "true", "false", "k1 k2  k3", "x" * 300, " ", "ü", ""]
)
NAMES = st.sampled_from(
    [
        names.TAGS, names.KEYS, names.UNIQ_KEY, names.WAIT, names.WAIT, names.CLUSTER, "Aa", "BB", "own", "z",
        "name2", "name3", "name4", "name5", "name6", "name7", "name8", "",
    ]
)  # fmt: skip
#: Names that a message has which waits elsewhere first, or had when it waited before.
WAITING_NAMES = st.sampled_from(
    [
        names.DELAY, names.TRANSACTION_PREPARED, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS,
        names.TIMER_DELIVER_MS, names.TIMER_OUT_MS, names.TIMER_DEL_UNIQKEY, names.REAL_TOPIC,
        names.REAL_QUEUE_ID, names.TRANSACTION_CHECK_TIMES,
    ]
)  # fmt: skip
RARE_NAMES = WAITING_NAMES | st.sampled_from(["nül", "nul\0"])
#: What asks for waiting: mostly as clients write it.
ASKING = st.one_of(
    st.tuples(
        st.just(names.DELAY), st.sampled_from(["1", "4", "4", "4", "18", "19", "0", "007", "12345678901"])
    ),
    st.tuples(
        st.just(names.TRANSACTION_PREPARED), st.sampled_from(["true", "true", "true", "TRUE", "false"])
    ),
    st.tuples(
        st.sampled_from([names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS]),
        st.sampled_from(["1", "60", "60", "86400", "0", "-1", "99999999999999999", "9" * 19, "1s"]),
    ),
    st.tuples(
        st.just(names.TIMER_DELIVER_MS),
        st.sampled_from([str(START_MS + 99_000), str(START_MS), "1", "9" * 18]),
    ),
)
PAIRS = st.lists(st.tuples(NAMES, VALUES), max_size=14) | st.lists(
    st.tuples(NAMES | RARE_NAMES, VALUES), max_size=4
)
PROPERTIES = st.one_of(
    st.just("TAGS\x01tag-a\x02UNIQ_KEY\x017F0000010A0B18B4AAC2000000010000\x02WAIT\x01true"),
    st.just(
        "KEYS\x01k1 k2\x02UNIQ_KEY\x017F0000010A0B18B4AAC2000000010001\x02TAGS\x01TagB\x02WAIT\x01true\x02"
    ),
    st.builds(
        lambda pairs, end: "\x02".join(f"{name}\x01{value}" for name, value in pairs) + end,
        PAIRS,
        st.sampled_from(["", "\x02", "\x01", "\x02\x02", "\x02="]),
    ),
)
BODIES = st.binary(max_size=60) | st.builds(bytes, st.integers(0, 5000))
NUMBERS = st.sampled_from(
    ["0", "1", "2", "7", "-1", "00", "+1", " 1", "1.0", "2147483647", "2147483648", "x", ""]
)
ODD = st.dictionaries(
    st.sampled_from(
        ["queueId", "sysFlag", "flag", "bornTimestamp", "reconsumeTimes", "unitMode", "batch",
         "defaultTopicQueueNums", "producerGroup", "maxReconsumeTimes"]
    ),
    NUMBERS | st.sampled_from(["true", "false", "TRUE", "orders", "nowhere", "ü"]),
    max_size=2,
)  # fmt: skip
FLAGS = st.sampled_from([0, 0, 0, 0, int(SysFlag.COMPRESSED), int(SysFlag.TRANSACTION_PREPARED), 16, 48])
SERIALIZERS = st.sampled_from([Serializer.JSON, Serializer.ROCKETMQ])
ONEWAY = st.sampled_from([0, 0, 0, 2])


PLAIN_PAIRS = st.dictionaries(
    NAMES.filter(lambda name: name not in ("", names.CLUSTER)),
    VALUES.filter(lambda value: value not in ("", "ü")),
    max_size=9,
)
MANY_PAIRS = st.dictionaries(
    st.sampled_from([f"property-{number}" for number in range(400)] + ["TAGS", "KEYS", "WAIT", "UNIQ_KEY"]),
    VALUES.filter(lambda value: value not in ("", "ü")),
    max_size=60,
)
SEPARATORS = st.sampled_from(["", "\x02"])


def text_of(pairs, end):
    return "\x02".join(f"{name}\x01{value}" for name, value in pairs.items()) + end


PLAIN_PROPERTIES = st.builds(text_of, PLAIN_PAIRS | MANY_PAIRS, SEPARATORS)
#: Of a message that waits elsewhere first.
WAITING_PROPERTIES = st.builds(
    lambda before, asking, more, behind, end: text_of({**before, **dict([asking]), **more, **behind}, end),
    PLAIN_PAIRS | MANY_PAIRS,
    ASKING,
    st.just({})
    | st.just({})
    | st.dictionaries(WAITING_NAMES, st.sampled_from(["1", "true", "x"]), max_size=1),
    PLAIN_PAIRS,
    SEPARATORS,
)


@st.composite
def plain_sends(draw):
    """A send that the kernel takes, or nearly."""
    code = draw(st.sampled_from([10, 310, 310, 320]))
    is_batch = code == RequestCode.SEND_BATCH_MESSAGE
    made = send_fields if code == RequestCode.SEND_MESSAGE else send_v2_fields
    fields = made(
        draw(st.sampled_from(TOPICS[:2])),
        queueId=draw(st.integers(0, 3)),
        sysFlag=draw(st.sampled_from([0, 0, 1])),
        flag=draw(st.integers(-3, 3)),
        batch=is_batch,
    )
    is_waiting = draw(st.integers(0, 2)) == 0
    if is_waiting and draw(st.integers(0, 2)) == 0:
        fields["sysFlag" if code == RequestCode.SEND_MESSAGE else "f"] = str(
            draw(st.sampled_from([4, 5, 8, 12]))
        )
    fields["properties" if code == RequestCode.SEND_MESSAGE else "i"] = draw(
        WAITING_PROPERTIES if is_waiting else PLAIN_PROPERTIES
    )
    body = draw(st.binary(max_size=60))
    if is_batch:
        unit = st.builds(BatchUnit, st.integers(0, 9), st.binary(max_size=30), PLAIN_PROPERTIES)
        body = encode_batch(draw(st.lists(unit, min_size=1, max_size=4)))
    return frame(code, fields, body, draw(SERIALIZERS), draw(ONEWAY), draw(st.integers(0, 2**31 - 1)))


@st.composite
def sends(draw):
    topic, code = draw(st.sampled_from(TOPICS)), draw(st.sampled_from([10, 310, 320]))
    changes = {
        "queueId": draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4])),
        "sysFlag": draw(FLAGS),
        **(draw(ODD) if draw(st.integers(0, 3)) == 0 else {}),
    }
    body, properties = draw(BODIES), draw(PROPERTIES)
    if code == RequestCode.SEND_BATCH_MESSAGE:
        changes.setdefault("batch", True)
        units = draw(
            st.lists(st.builds(BatchUnit, st.integers(0, 9), st.binary(max_size=30), PROPERTIES), max_size=4)
        )
        body = draw(st.sampled_from([encode_batch(units), batch_body([b"one", b"two"], {"TAGS": "a"}), body]))
    made = send_fields if code == RequestCode.SEND_MESSAGE else send_v2_fields
    fields = made(topic, **changes)
    fields["properties" if code == RequestCode.SEND_MESSAGE else "i"] = properties
    return frame(code, fields, body, draw(SERIALIZERS), draw(ONEWAY), draw(st.integers(-5, 2**31 - 1)))


@st.composite
def pulls(draw):
    changes = {
        "queueId": draw(st.sampled_from([0, 0, 0, 1, 4])),
        "queueOffset": draw(st.integers(-1, 8)),
        "maxMsgNums": draw(st.sampled_from([0, 1, 2, 32, 1000])),
        "subscription": draw(st.sampled_from(["*", "*", "tag-a", "tag-a", "tag-a || TagB", "none"])),
        "sysFlag": int(PullFlag.SUBSCRIPTION) | draw(st.sampled_from([0, 0, 1])),
        "commitOffset": draw(st.integers(0, 3)),
        "subVersion": draw(st.sampled_from([0, 0, 0, 1])),
    }
    fields = pull_fields(draw(st.sampled_from(TOPICS[:2])), **changes)
    return frame(
        draw(st.sampled_from([11, 361])), fields, b"", draw(SERIALIZERS), opaque=draw(st.integers(0, 9))
    )


@st.composite
def progress(draw):
    """A commit or a query of an offset, of queues that the kernel knows and of others."""
    fields = {
        "consumerGroup": draw(st.sampled_from(["readers", "readers", "readers", "others"])),
        "topic": draw(st.sampled_from(TOPICS[:2])),
        "queueId": draw(st.sampled_from(["0", "0", "0", "1", "7", "-1", "00"])),
    }
    flag, code = 0, draw(st.sampled_from([14, 15, 15]))
    if code == RequestCode.UPDATE_CONSUMER_OFFSET:
        fields["commitOffset"] = str(draw(st.integers(0, 9))) if draw(st.integers(0, 9)) else draw(NUMBERS)
        flag = draw(ONEWAY)
    elif draw(st.booleans()):
        fields["setZeroIfNotFound"] = draw(st.sampled_from(["true", "false", "perhaps"]))
    return frame(code, fields, b"", draw(SERIALIZERS), flag, draw(st.integers(0, 9)))


@st.composite
def spoilt(draw, frames):
    """A frame in which a few bytes are others; where it ends is not among them."""
    made = bytearray(draw(frames))
    for _ in range(draw(st.integers(1, 3))):
        made[draw(st.integers(8, len(made) - 1))] = draw(st.integers(0, 255))
    return bytes(made)


#: Makes the topics and their queues, so that the kernel learns them.
FIRST = (
    [
        # None of them is due before the end.
        frame(310, send_v2_fields(TOPICS[0], {name: value}), b"first", Serializer.JSON)
        for name, value in (
            (names.DELAY, "4"),
            (names.DELAY, "18"),
            (names.TRANSACTION_PREPARED, "true"),
            (names.TIMER_DELAY_SEC, "90"),
        )
    ]
    + [
        frame(
            310, send_v2_fields(topic, {"KEYS": "a"}, queueId=queue), b"first", Serializer.JSON, opaque=queue
        )
        for topic in TOPICS
        for queue in range(4)
    ]
    + [
        frame(11, pull_fields(topic, queueId=queue, subscription=tags), b"", Serializer.JSON)
        for topic in TOPICS[:2]
        for queue in range(2)
        for tags in ("*", "tag-a")
    ]
    + [
        frame(
            15,
            {"consumerGroup": "readers", "topic": topic, "queueId": queue, "commitOffset": 2},
            b"",
            Serializer.JSON,
        )
        for topic in TOPICS[:2]
        for queue in range(2)
    ]
)
SENTINEL = frame(9999, {}, b"", Serializer.JSON, opaque=123_456_789)
SENTINEL_ANSWER = encode(Command(3, opaque=123_456_789, flag=1, remark=" request type 9999 not supported"))


async def compare(folder: Path, flush, frames, cuts) -> None:
    clock = ManualClock()
    sides = [
        Side(folder / name, use_kernel=name == "compiled", clock=clock, flush=flush)
        for name in ("compiled", "pure")
    ]
    stream = b"".join([*frames, SENTINEL])
    edges = sorted([0, *(cut % (len(stream) + 1) for cut in cuts), len(stream)])
    for side in sides:
        await side.start()
        # The first round makes the topics; in the second they are on the disk, and the kernel learns them.
        for _ in range(2):
            await side.warm_up(FIRST)
    clock.advance(12_345)
    for side in sides:
        for start, end in pairwise(edges):
            await side.feed(stream[start:end])
        if flush == "ASYNC_FLUSH":
            await side.read_until(lambda answers: answers[-1:] == [SENTINEL_ANSWER])
        else:
            # What waits for the disk is answered after the sentinel.
            await side.read_until(lambda answers: len(answers) == 1 + sum(map(_is_answered, frames)))
    for side in sides:
        await side.close()
    compiled, pure = sides
    assert compiled.is_ended == pure.is_ended
    if not pure.is_ended:
        # With the end of a connection the last answers may be lost on the way.
        in_order = list if flush == "ASYNC_FLUSH" else sorted
        assert in_order(compiled.answers()) == in_order(pure.answers())
    assert compiled.files() == pure.files()


def _is_answered(made: bytes) -> bool:
    reader = CommandReader()
    reader.feed(made)
    command = reader.next_command()
    return command is not None and not command.is_oneway


@pytest.fixture(autouse=True)
def quiet():
    """Warnings are what is expected here."""
    log = logging.getLogger("pyromq")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)


LISTS = {"min_size": 1, "max_size": 30}
CUTS = st.lists(st.integers(0, 20_000), max_size=5)
SETTINGS = settings(max_examples=times(12), deadline=None, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(
    frames=st.lists(
        st.one_of(plain_sends(), plain_sends(), plain_sends(), pulls(), sends(), spoilt(plain_sends())),
        **LISTS,
    ),
    cuts=CUTS,
)
def test_the_kernel_and_python_answer_and_store_the_same(frames, cuts):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder), "ASYNC_FLUSH", frames, cuts))


@SETTINGS
@given(
    frames=st.lists(
        st.one_of(progress(), progress(), progress(), pulls(), plain_sends(), spoilt(progress())), **LISTS
    ),
    cuts=CUTS,
)
def test_the_kernel_and_python_commit_the_same_progress(frames, cuts):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder), "ASYNC_FLUSH", frames, cuts))


# Without pulls: what they find depends on what the disk has by then, which is another thread's to say.
@SETTINGS
@given(frames=st.lists(st.one_of(plain_sends(), plain_sends(), sends()), **LISTS), cuts=CUTS)
def test_the_kernel_and_python_wait_for_the_disk_alike(frames, cuts):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder), "SYNC_FLUSH", frames, cuts))
