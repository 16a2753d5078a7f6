"""The kernel's properties of a message: in the order of Java's map, and with what is noted when it waits."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.kinds.delay import delay_diversion
from pyromq.broker.kinds.half_messages import half_diversion
from pyromq.broker.kinds.timers.timed import plain_timer_diversions, timer_diversions
from pyromq.broker.requests.send_shortcut import kernel_diversion, make_sends
from pyromq.broker.topics.intake import PlainDiversion
from pyromq.codes import TRANSACTION_MASK, RequestCode, SysFlag
from pyromq.config.settings import BrokerSettings, StoreSettings
from pyromq.errors import Refused
from pyromq.store.follower import entry_of
from pyromq.store.store import Draft
from pyromq.system_names import SCHEDULE, TRANSACTION_HALF
from pyromq.testing.requests import send_v2_fields
from pyromq.wire import properties as names
from pyromq.wire.command import Command, encode
from pyromq.wire.java_hash import java_map_order
from pyromq.wire.record import Record, iter_records

tails = pytest.importorskip("pyromq._kernel.storage.tails")

from kernel_inlets import inlet  # noqa: E402  it needs the kernel

HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])
NOW_MS = 1_700_000_000_000
LEVELS_MS = {level: level * 1_000 for level in range(1, 19)}
STORE, BROKER = StoreSettings(timer_max_delay_sec=1_000), BrokerSettings()
#: What Python does, in its order.
DIVERSIONS = {
    names.TRANSACTION_PREPARED: half_diversion(BROKER, broker_ip="here"),
    **timer_diversions(STORE, lambda: NOW_MS),
    names.DELAY: delay_diversion(LEVELS_MS),
}
PLAIN = [
    PlainDiversion(name=names.DELAY, topic=SCHEDULE, delays_ms=tuple(LEVELS_MS.values())),
    PlainDiversion(
        name=names.TRANSACTION_PREPARED, topic=TRANSACTION_HALF, word="true", cleared=TRANSACTION_MASK
    ),
    *plain_timer_diversions(STORE),
]


def planned(properties: Mapping[str, str], *, sys_flag: int = 0, queue_id: int = 3) -> Record | None:
    """Return what the kernel stores of a message, with its tags code as its CRC; None when Python has to."""
    kernel = make_sends(
        store_host=HOST,
        cluster="cluster",
        common_ext={},
        diverting=tuple(DIVERSIONS),
        wait_matters=False,
        has_index=False,
        body_bytes_max=100,
    )
    assert kernel is not None
    queues = [tails.QueueTail() for _ in range(30)]
    kernel.learn_topic(b"orders", 0, 4)
    kernel.learn(b"orders", 3, queues[0], 0)
    for plain in PLAIN:
        diversion = kernel_diversion(plain, "broker-a")
        for at in range(len(plain.delays_ms) or 1):
            diversion.learn(at, queues[1 + at])
        kernel.divert(diversion)
    fields = {name: str(value).lower() for name, value in send_v2_fields("orders").items()}
    text = "\x02".join(f"{name}\x01{value}" for name, value in properties.items())
    ext = fields | {"i": text, "e": str(queue_id), "f": str(sys_flag)}
    received = inlet(bytes(encode(Command(RequestCode.SEND_MESSAGE_V2, ext=ext, body=b"x"))), host=HOST)
    kernel.plan([received], 0, under_way_max=1, now_ms=NOW_MS, log_end=0, log_room=1 << 20, index_room=0)
    if not kernel.count:
        return None
    [record] = iter_records(bytes(kernel.records))
    kernel.apply(None, 1 << 20)
    [held] = [bytes(queue.held) for queue in queues if queue.held]
    record.body_crc = int.from_bytes(held[12:], "big", signed=True)
    return record


def stored(properties: Mapping[str, str], *, sys_flag: int = 0) -> Record | None:
    """Return what Python stores of the same message, None when it refuses it."""
    pairs = dict(properties) | {names.CLUSTER: "cluster"}
    order = [name for name in java_map_order(tuple(pairs)) if name != names.WAIT]
    text = "\x02".join(f"{name}\x01{pairs[name]}" for name in order)
    draft = Draft("orders", 3, b"x", text, 0, sys_flag, 0, HOST, HOST)
    if names.WAIT in pairs:
        pairs[names.WAIT] = pairs.pop(names.WAIT)
    try:
        for name, divert in DIVERSIONS.items():
            if name in pairs and divert(draft, pairs):
                draft.properties = names.encode(pairs)
    except Refused:
        return None
    record = Record(
        draft.topic,
        draft.body,
        draft.queue_id,
        draft.properties,
        sys_flag=draft.sys_flag,
        stored_at_ms=NOW_MS,
    )
    record.body_crc = entry_of(record, 0, LEVELS_MS).tags_code
    return record


def told(record: Record | None) -> tuple[object, ...] | None:
    """Return what the two have to agree on."""
    if record is None:
        return None
    return record.topic, record.queue_id, record.sys_flag, record.body_crc, record.properties


ASCII = st.characters(min_codepoint=3, max_codepoint=126)
WORDS = st.text(ASCII, min_size=1, max_size=12)
OWN = WORDS.filter(lambda name: name not in {*DIVERSIONS, names.CLUSTER})
WRITTEN = "1 18 19 9999999999 10000000000 0 00 007 +1 -1 1.5 x 1000 1001 1000000 1000001 true TRUE false"
TIMES = (NOW_MS, NOW_MS + 1, NOW_MS + 1_000_000, NOW_MS + 1_000_001)
NUMBERS = st.sampled_from([*WRITTEN.split(), *map(str, TIMES), "9" * 18, "9" * 19, "9" * 20])


@given(st.dictionaries(OWN, WORDS, max_size=150))
def test_properties_stand_in_the_order_of_javas_map_however_many_there_are(
    properties: dict[str, str],
) -> None:
    by_kernel = planned(properties)
    # To find two of one name among many in one bucket is left to Python.
    if len(properties) < 16 or by_kernel is not None:
        assert told(by_kernel) == told(stored(properties))


@pytest.mark.parametrize("count", [11, 12, 13, 23, 24, 25, 48, 96, 192, 384, 1_000, 3_000])
@pytest.mark.parametrize("has_wait", [True, False])
def test_javas_map_grows_at_each_step(count: int, *, has_wait: bool) -> None:
    properties = {f"n{number}": "v" for number in range(count)} | ({"WAIT": "true"} if has_wait else {})
    assert told(planned(properties)) == told(stored(properties))


@pytest.mark.parametrize("name", [f"n{number}" for number in (0, 7, 99)])
def test_a_name_that_is_there_twice_is_left_to_python(name: str) -> None:
    properties = {f"n{number}": "v" for number in range(100)}
    assert planned(properties) is not None
    assert planned(properties | {"last": f"v\x02{name}\x01again"}) is None


@given(
    asked=st.dictionaries(st.sampled_from(list(DIVERSIONS)), NUMBERS, min_size=1, max_size=2),
    before=st.dictionaries(OWN | st.just(names.WAIT), WORDS, max_size=14),
    behind=st.dictionaries(
        OWN | st.sampled_from([names.REAL_TOPIC, names.REAL_QUEUE_ID, names.TIMER_OUT_MS, names.WAIT]),
        WORDS,
        max_size=3,
    ),
    sys_flag=st.sampled_from([0, 0, 1, 4, 5, 8, 12]),
)
def test_what_waits_is_stored_as_python_stores_it_or_left_to_python(
    asked: dict[str, str], before: dict[str, str], behind: dict[str, str], sys_flag: int
) -> None:
    properties = before | asked | behind
    by_kernel = planned(properties, sys_flag=sys_flag)
    if by_kernel is not None:
        assert told(by_kernel) == told(stored(properties, sys_flag=sys_flag))


@pytest.mark.parametrize(
    "asked",
    [
        {names.DELAY: "1"},
        {names.DELAY: "18"},
        {names.DELAY: "9999999999"},
        {names.TRANSACTION_PREPARED: "true"},
        {names.TIMER_DELAY_SEC: "1000"},
        {names.TIMER_DELAY_MS: "1"},
        {names.TIMER_DELAY_MS: "1000000"},
        {names.TIMER_DELIVER_MS: str(NOW_MS + 1)},
        {names.TIMER_DELIVER_MS: str(NOW_MS + 1_000_000)},
    ],
    ids=str,
)
def test_the_kernel_takes_what_clients_write(asked: dict[str, str]) -> None:
    # Queues of the topic that have no messages yet do not matter.
    by_kernel = planned({"TAGS": "a", **asked, "WAIT": "false"}, queue_id=1)
    assert by_kernel is not None
    assert by_kernel.topic != "orders"
    assert names.find_text(by_kernel.properties, names.REAL_QUEUE_ID) == "1"


@pytest.mark.parametrize(
    ("properties", "sys_flag", "queue_id"),
    [
        ({names.DELAY: "3"}, 0, 4),
        ({names.DELAY: "3"}, 0, -1),
        ({names.DELAY: "3"}, int(SysFlag.TRANSACTION_PREPARED), 0),
        ({names.DELAY: "3", names.TIMER_DELAY_MS: "5"}, 0, 0),
        ({names.DELAY: "3", names.REAL_TOPIC: "other"}, 0, 0),
        ({names.TIMER_DELAY_MS: "5", names.TIMER_OUT_MS: "5"}, 0, 0),
        ({names.TIMER_DELAY_MS: "5", names.TIMER_DEL_UNIQKEY: "5"}, 0, 0),
        ({names.TIMER_DELAY_SEC: "1001"}, 0, 0),
        ({names.TRANSACTION_PREPARED: "True"}, 0, 0),
    ],
    ids=str,
)
def test_what_is_unusual_is_left_to_python(properties: dict[str, str], sys_flag: int, queue_id: int) -> None:
    assert planned(properties, sys_flag=sys_flag, queue_id=queue_id) is None
