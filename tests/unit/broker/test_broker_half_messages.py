"""Half messages: what is decided, and what a producer is asked."""

import tracemalloc
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.groups.offsets import OffsetTable
from pyromq.broker.kinds.half_drafts import committed_draft
from pyromq.broker.kinds.half_messages import DecidedOffsets, HalfMessages, half_diversion
from pyromq.broker.kinds.transaction_checks import check_command
from pyromq.codes import RequestCode
from pyromq.config.settings import BrokerSettings, StoreSettings
from pyromq.store.store import Draft, MessageStore, Placed
from pyromq.testing.golden import GoldenFrame, read_frames
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire import properties as names
from pyromq.wire.record import Record, decode_record

GOLDEN = Path(__file__).parents[2] / "conformance" / "golden"


@given(start=st.integers(0, 40), offsets=st.sets(st.integers(0, 200)), moved=st.integers(0, 100))
def test_decided_offsets_are_a_set_that_forgets_its_beginning(
    start: int, offsets: set[int], moved: int
) -> None:
    decided = DecidedOffsets(start)
    for offset in offsets:
        decided.add(offset)

    decided.start_at(start + moved)

    found = {offset for offset in range(300) if offset in decided}
    assert found == {offset for offset in offsets if offset >= start + moved}


@given(offsets=st.lists(st.integers(0, 100), max_size=50))
def test_offsets_can_be_added_between_moves(offsets: list[int]) -> None:
    decided, expected = DecidedOffsets(3), set[int]()
    for at, offset in enumerate(offsets):
        decided.add(offset)
        decided.start_at(3 + at)
        expected = {known for known in expected | {offset} if known >= 3 + at}

    assert {offset for offset in range(150) if offset in decided} == expected


def test_a_half_that_does_not_say_where_it_belongs_is_not_committed() -> None:
    assert committed_draft(Record(topic="RMQ_SYS_TRANS_HALF_TOPIC", body=b"x")) is None


def test_a_half_loses_its_bits_and_its_delay_and_keeps_the_rest() -> None:
    draft = Draft("orders", 2, b"x", "", 0, 0x1 | 0x4, 0, bytes(8), bytes(8))
    properties = {"TRAN_MSG": "TRUE", "DELAY": "2", "TAGS": "t"}

    assert half_diversion(BrokerSettings(), broker_ip="10.0.0.1")(draft, properties)

    assert (draft.topic, draft.queue_id, draft.sys_flag) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0, 0x1)
    assert properties == {"TRAN_MSG": "TRUE", "TAGS": "t", "REAL_TOPIC": "orders", "REAL_QID": "2"}


def recorded_checks() -> list[GoldenFrame]:
    frames = read_frames(GOLDEN / "frames_java_4.9.8.jsonl")
    return [frame for frame in frames if frame.command.code == RequestCode.CHECK_TRANSACTION_STATE]


def test_a_question_is_byte_for_byte_what_rocketmq_asks() -> None:
    checks = recorded_checks()
    assert len(checks) == 5
    for frame in checks:
        asked = decode_record(frame.body or b"")
        properties = names.decode(asked.properties) | {names.WAIT: "true"}
        half = msgspec.structs.replace(
            asked,
            topic="RMQ_SYS_TRANS_HALF_TOPIC",
            queue_id=0,
            queue_offset=7,
            position=77,
            properties=names.encode(properties),
        )

        command = check_command(half, properties, Placed(asked.position, 364, 0, asked.queue_offset, 0))

        assert command is not None
        assert command.body == frame.body
        assert command.ext == frame.command.ext


def test_what_is_known_of_transactions_takes_little_memory_and_none_when_they_are_decided(
    tmp_path: Path,
) -> None:
    settings = StoreSettings(store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=64 << 20)
    store = MessageStore(settings, clock=ManualClock())
    store.open()
    halves = HalfMessages(store, OffsetTable(tmp_path / "offsets.json"), BrokerSettings())
    halves.load()
    count = 4_000
    # The queue of halves is as long as the op messages say.
    store.queues.get_or_make("RMQ_SYS_TRANS_HALF_TOPIC", 0).begin_at(2 * count)

    def copy(number: int) -> Record:
        properties = f"UNIQ_KEY\x01{number:032X}\x02TRANSACTION_CHECK_TIMES\x011"
        return Record("RMQ_SYS_TRANS_HALF_TOPIC", b"x", properties=properties, queue_offset=count + number)

    def op(number: int) -> Record:
        body = b"%d" % (count + number)
        return Record("RMQ_SYS_TRANS_OP_HALF_TOPIC", body, properties="TAGS\x01d", queue_offset=number)

    tracemalloc.start()
    try:
        for number in range(count):
            halves.apply(copy(number))
        bytes_each = tracemalloc.get_traced_memory()[0] / count
        for number in range(count):
            halves.apply(op(number))
        for _ in range(2 * count):
            halves.pass_on()
        while halves.pass_old_ops(1_000):
            pass
        bytes_left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        store.close()

    assert bytes_each < 300
    assert halves.op_progress == count
    # The room of a dictionary that was large once is not given back before it grows again.
    assert bytes_left < count * 60
