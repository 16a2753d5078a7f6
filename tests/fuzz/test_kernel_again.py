"""One meaning, two speeds, for records that are stored again: ends of transactions, deliveries, send-backs.

A broker with the kernel and one without get the same requests at the same time, in rounds: what a round ends
or sends back was stored in the rounds before it. Every byte that they answer and store is the same, and so is
what they know of halves and of progress.
"""

import asyncio
import logging
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from effort import times
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_sides import Side, frame

from pyromq.broker.broker import Broker
from pyromq.codes import RequestCode, Serializer
from pyromq.kernel import WHY_PURE
from pyromq.system_names import SCHEDULE, TRANSACTION_HALF
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.wire import properties as names
from pyromq.wire.command import CommandReader
from pyromq.wire.record import Record

pytestmark = pytest.mark.skipif(WHY_PURE is not None, reason=f"there is nothing to compare: {WHY_PURE}")

TOPICS = ("orders", "payments_eu-1")
GROUPS = ("shop", "bank")
#: Milliseconds of delay level 1, the only one here: levels that are due together have no order among them.
LEVEL_MS = 1_000
SENTINEL = frame(9999, {}, b"", Serializer.JSON, opaque=123_456_789)

SERIALIZERS = st.sampled_from([Serializer.JSON, Serializer.ROCKETMQ])
PAIRS = st.dictionaries(
    st.sampled_from([names.TAGS, names.KEYS, names.UNIQ_KEY, "own", "Aa", "BB", "nül"]),
    st.sampled_from(["tag-a", "k1 k2", "x" * 200, "0", "id-1", "id-2", "id-3", "id-4"]),
    max_size=4,
)
#: What a producer may say of where its message belongs, in its own words.
RARE_PAIRS = st.sampled_from(
    [
        {}, {}, {}, {}, {}, {}, {names.REAL_TOPIC: "payments_eu-1"}, {names.REAL_QUEUE_ID: "07"},
        {names.PRODUCER_GROUP: "bank"}, {"PGROUP2": "shop"},
    ]
)  # fmt: skip


@st.composite
def waiting_sends(draw: st.DrawFn) -> bytes:
    """A half, a delayed message, or a plain one."""
    kind = draw(st.sampled_from(["half", "half", "half", "delayed", "delayed", "plain"]))
    properties = draw(PAIRS) | draw(RARE_PAIRS)
    if kind == "half":
        properties |= {names.TRANSACTION_PREPARED: "true"}
        properties.setdefault(names.PRODUCER_GROUP, draw(st.sampled_from(GROUPS)))
    elif kind == "delayed":
        properties |= {names.DELAY: "1"}
    fields = send_v2_fields(
        draw(st.sampled_from(TOPICS)),
        properties,
        queueId=draw(st.integers(0, 1)),
        sysFlag=draw(st.sampled_from([0, 0, 1])),
        flag=draw(st.integers(-3, 3)),
        bornTimestamp=1_700_000_000_000 + draw(st.integers(0, 1)),
    )
    body = draw(st.binary(max_size=60) | st.just(bytes(900)))
    return frame(RequestCode.SEND_MESSAGE_V2, fields, body, draw(SERIALIZERS), opaque=draw(st.integers(0, 9)))


@st.composite
def endings(draw: st.DrawFn) -> dict[str, Any]:
    """An end of one of the halves that there will be, and what is wrong with it."""
    return {
        "which": draw(st.integers(0, 30)),
        "fate": draw(st.sampled_from([8, 8, 8, 8, 12, 12, 0, 4])),
        "changes": draw(
            st.sampled_from(
                [{}] * 9
                + [
                    {"producerGroup": "others"},
                    {"tranStateTableOffset": "7"},
                    {"commitLogOffset": "13"},
                    {"commitLogOffset": "0"},
                    {"commitLogOffset": "99999999"},
                    {"commitLogOffset": "-1"},
                    {"msgId": "ü"},
                    {"fromTransactionCheck": "true", "transactionId": "an-id", "topic": "orders"},
                    {"fromTransactionCheck": "TRUE"},
                    {"topic": 'a "quoted" one'},
                ]
            )
        ),
        "flag": draw(st.sampled_from([0, 2, 2])),
        "serializer": draw(SERIALIZERS),
        "opaque": draw(st.integers(0, 9)),
    }


@st.composite
def send_backs(draw: st.DrawFn) -> dict[str, Any]:
    """A send-back of one of the messages that there will be."""
    return {
        "back": draw(st.integers(0, 40)),
        "fields": {"group": draw(st.sampled_from(["readers", "readers", "readers", "others"]))}
        | {"delayLevel": draw(st.sampled_from(["0", "0", "0", "1", "2", "-1", "x"]))}
        | draw(
            st.sampled_from(
                [{}] * 6
                + [
                    {
                        "maxReconsumeTimes": "16",
                        "unitMode": "false",
                        "originMsgId": "id",
                        "originTopic": "orders",
                    },
                    {"maxReconsumeTimes": "1"},
                    {"maxReconsumeTimes": "0"},
                    {"maxReconsumeTimes": "-1"},
                    {"unitMode": "true"},
                    {"offset": "0"},
                    {"offset": "77"},
                    {"originTopic": "ü"},
                ]
            )
        ),
        "flag": draw(st.sampled_from([0, 0, 0, 2])),
        "serializer": draw(SERIALIZERS),
        "opaque": draw(st.integers(0, 9)),
    }


ROUNDS = st.lists(
    st.tuples(
        st.lists(
            st.one_of(waiting_sends(), waiting_sends(), endings(), endings(), send_backs(), send_backs()),
            max_size=12,
        ),
        st.lists(st.integers(0, 4000), max_size=2),
        st.sampled_from(["", "", "later", "later", "check", "restart"]),
    ),
    min_size=2,
    max_size=5,
)


def halves_of(broker: Broker) -> list[Record]:
    """Return all halves that are stored, copies too."""
    store = broker.store
    entries = store.entries(TRANSACTION_HALF, 0, 0, 1000)
    found = [store.record_at(entry.position) for entry in entries]
    return [half for half in found if half is not None]


def messages_of(broker: Broker) -> list[int]:
    """Return where messages are that somebody may have read, those that were retried among them."""
    store, found = broker.store, []
    for topic in (*TOPICS, "%RETRY%readers", "%RETRY%others"):
        for queue_id in range(2):
            found += [entry.position for entry in store.entries(topic, queue_id, 0, 1000)]
    return found


def back_frame(returned: dict[str, Any], positions: list[int]) -> bytes:
    """Return the request that sends one of these messages back."""
    fields = {"offset": str(positions[returned["back"] % len(positions)])} | returned["fields"]
    code = RequestCode.CONSUMER_SEND_MSG_BACK
    return frame(code, fields, b"", returned["serializer"], returned["flag"], returned["opaque"])


def end_frame(ending: dict[str, Any], halves: list[Record]) -> bytes:
    """Return the request for an ending, of one of these halves."""
    fields = {"producerGroup": "shop", "tranStateTableOffset": "0", "commitLogOffset": "0", "msgId": "id"}
    if halves:
        half = halves[ending["which"] % len(halves)]
        fields |= {
            "producerGroup": names.find_text(half.properties, names.PRODUCER_GROUP) or "",
            "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(half.position),
        }
    fields |= {"commitOrRollback": str(ending["fate"])} | ending["changes"]
    return frame(
        RequestCode.END_TRANSACTION, fields, b"", ending["serializer"], ending["flag"], ending["opaque"]
    )


def known(broker: Broker) -> dict[str, Any]:
    """Return what a broker knows of what waits."""
    halves = broker.kinds.halves
    end = broker.store.max_offset(TRANSACTION_HALF, 0)
    return {
        "decided": [offset for offset in range(end) if halves.is_decided(offset)],
        "ops": list(halves._ops),
        "copies": dict(halves._latest),
        "delivered": dict(broker.kinds.delayed.progress),
    }


def is_calm(broker: Broker, now_ms: int) -> bool:
    """Return whether all that is due was delivered."""
    offset = broker.kinds.delayed.progress.get(1, 0)
    return all(entry.tags_code > now_ms for entry in broker.store.entries(SCHEDULE, 0, offset, 1))


#: Makes the topics and their queues.
FIRST = [
    frame(310, send_v2_fields(topic, queueId=queue), b"first", Serializer.JSON, opaque=queue)
    for topic in TOPICS
    for queue in range(2)
]


async def warm_up(side: Side) -> None:
    """Have the kernel learn where committed and delayed messages go."""
    await side.warm_up(FIRST)
    await side.warm_up(FIRST)
    waiting = []
    for topic in TOPICS:
        for queue in range(2):
            for more in (
                {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: "shop"},
                {names.DELAY: "1"},
            ):
                fields = send_v2_fields(topic, more, queueId=queue)
                waiting.append(frame(310, fields, b"first", Serializer.JSON))
    await side.warm_up(waiting)
    ends = [
        end_frame(
            {"which": which, "fate": 8, "changes": {}, "flag": 0, "serializer": Serializer.JSON, "opaque": 1},
            halves_of(side.broker),
        )
        for which in range(4)
    ]
    await side.warm_up(ends)
    # The first ones make the groups' topics; the next find them on the disk, and wait for nothing.
    for group in ("readers", "others", "readers"):
        for level in ("-1", "1"):
            fields = {"group": group, "delayLevel": level}
            returned = {"back": 0, "fields": fields, "flag": 0, "opaque": 1, "serializer": Serializer.JSON}
            await side.warm_up([back_frame(returned, messages_of(side.broker))])


def is_answered(made: bytes) -> bool:
    """Return whether a request gets an answer: a producer that does not know the fate of a half gets none."""
    reader = CommandReader()
    reader.feed(made)
    command = reader.next_command()
    assert command is not None
    ext = command.ext or {}
    return not command.is_oneway and ext.get("commitOrRollback", "8") in ("8", "12")


async def compare(folder: Path, flush: str, rounds: list[Any]) -> None:
    clock = ManualClock()
    sides = [
        Side(folder / name, use_kernel=name == "compiled", clock=clock, flush=flush, message_delay_level="1s")
        for name in ("compiled", "pure")
    ]
    for side in sides:
        await side.start()
        await warm_up(side)
    await later(sides, clock)
    for requests, cuts, then in rounds:
        await ask(sides, requests, cuts, in_order=flush == "ASYNC_FLUSH")
        assert known(sides[0].broker) == known(sides[1].broker)
        await THEN[then](sides, clock)
        assert known(sides[0].broker) == known(sides[1].broker)
    for side in sides:
        await side.close()
    assert sides[0].files() == sides[1].files()


async def ask(sides: list[Side], requests: list[Any], cuts: list[int], *, in_order: bool) -> None:
    """Send the requests of a round to both sides, and compare what they answer."""
    halves, positions = halves_of(sides[1].broker), messages_of(sides[1].broker)
    frames = [
        one
        if isinstance(one, bytes)
        else back_frame(one, positions)
        if "back" in one
        else end_frame(one, halves)
        for one in requests
    ]
    stream = b"".join([*frames, SENTINEL])
    edges = sorted({0, *(cut % (len(stream) + 1) for cut in cuts), len(stream)})
    # What waits for the disk is answered after the sentinel.
    count = sum(map(is_answered, [*frames, SENTINEL]))
    for side in sides:
        side.received = b""
        for start, end in pairwise(edges):
            await side.feed(stream[start:end])
        await side.read_until(lambda answers: len(answers) == count)
    answers = [side.answers() if in_order else sorted(side.answers()) for side in sides]
    assert answers[0] == answers[1]


async def later(sides: list[Side], clock: ManualClock) -> None:
    """Let what waits be due, and be delivered."""
    clock.advance(LEVEL_MS + 1)
    for side in sides:
        await aeventually(partial(is_calm, side.broker, clock.now_ms()))


async def nothing(_sides: list[Side], _clock: ManualClock) -> None:
    """Go on."""


async def check(sides: list[Side], clock: ManualClock) -> None:
    """Have producers be asked about halves: those that nobody decided are stored again."""
    clock.advance(7_000)
    await later(sides, clock)
    for side in sides:
        look = side.broker.kinds.halves.check
        assert look is not None
        await look()


async def restart(sides: list[Side], _clock: ManualClock) -> None:
    """Stop, and start again over what is stored."""
    for side in sides:
        await side.close()
        await side.start_again()


THEN = {"": nothing, "later": later, "check": check, "restart": restart}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Warnings are what is expected here."""
    log = logging.getLogger("pyromq")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)


@settings(max_examples=times(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(rounds=ROUNDS)
def test_the_kernel_and_python_store_the_same_again(rounds: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder), "ASYNC_FLUSH", rounds))


@settings(max_examples=times(5), deadline=None, suppress_health_check=list(HealthCheck))
@given(rounds=ROUNDS)
def test_the_kernel_and_python_wait_for_the_disk_alike(rounds: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder), "SYNC_FLUSH", rounds))
