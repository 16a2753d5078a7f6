"""Bodies that grow beyond what a client unpacks: nobody is stuck at them, and memory stays bounded."""

import pickle
import tracemalloc
import zlib
from collections.abc import Iterator

import pytest
from client_stage import Stage, answer, two_brokers

from pyromq.client.consumer.incoming import (
    UnreadableMessage,
    held_bytes,
    must_read,
    pure_received_messages,
    received_messages,
    shown_body,
)
from pyromq.client.plans.pull_plans import PullQuery, pull, pull_all, pull_deadline
from pyromq.client.producer.compression import compress, decompress
from pyromq.client.push.calling import Listening
from pyromq.client.push.consume_outcome import Work
from pyromq.codes import SysFlag
from pyromq.config.choices import Compression
from pyromq.config.settings import ClientSettings
from pyromq.errors import BodyTooLarge, CorruptRecord
from pyromq.model import MessageQueue, PullResult
from pyromq.wire import properties
from pyromq.wire.headers.pull_headers import PullMessageAnswer
from pyromq.wire.inflate import InflatedTooLarge, InflateError, inflate
from pyromq.wire.record import Record, encode_record

MIB = 1 << 20
QUEUE = MessageQueue("orders", "a", 1)
ZLIB = int(SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB)
READERS = [received_messages, pure_received_messages]


def record(offset: int, body: bytes, sys_flag: int = 0) -> bytes:
    pairs = {"UNIQ_KEY": f"U{offset}", "TAGS": "a"}
    return encode_record(
        Record(
            topic="orders",
            body=body,
            queue_id=1,
            queue_offset=offset,
            position=1_000 + offset,
            properties=properties.encode(pairs),
            sys_flag=sys_flag,
        )
    )


def packed(offset: int, size: int) -> bytes:
    return record(offset, zlib.compress(bytes(size)), ZLIB)


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.row("MM-05")
@pytest.mark.parametrize("kind", Compression)
@pytest.mark.usefixtures("traced")
def test_a_small_body_does_not_become_a_large_one(kind: Compression) -> None:
    body, flags = compress(bytes(300 * MIB), kind, 5)
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()

    with pytest.raises(BodyTooLarge, match=rf"message ID, {len(body)} bytes by {kind}, .* more than 8388608"):
        decompress(body, flags, "ID", 8 * MIB)

    assert tracemalloc.get_traced_memory()[1] - before < 32 * MIB


@pytest.mark.parametrize("kind", Compression)
def test_a_body_of_exactly_the_limit_is_read(kind: Compression) -> None:
    body, flags = compress(bytes(5_000), kind, 5)

    assert decompress(body, flags, "ID", 5_000) == bytes(5_000)
    with pytest.raises(BodyTooLarge):
        decompress(body, flags, "ID", 4_999)


@pytest.mark.parametrize("kind", [Compression.ZLIB, Compression.LZ4])
def test_a_body_that_was_cut_short_is_corrupt(kind: Compression) -> None:
    body, flags = compress(b"the same again and " * 1_000, kind, 5)

    with pytest.raises(CorruptRecord, match="incomplete"):
        decompress(body[:-8], flags, "ID")


def test_a_stream_reads_up_to_its_limit() -> None:
    assert inflate(zlib.compress(b"abc") + b"rest", 3) == b"abc"
    with pytest.raises(InflatedTooLarge):
        inflate(zlib.compress(b"abc"), 2)
    with pytest.raises(InflateError):
        inflate(b"", 2)


@pytest.mark.parametrize("read", READERS)
def test_one_body_that_is_too_large_leaves_the_others(read) -> None:
    answer_bytes = record(0, b"x") + packed(1, 2 * MIB) + packed(2, 5) + record(3, b"y")

    first, large, small, last = read(answer_bytes, "a", {"MIN_OFFSET": "0"}, {"a"}, MIB)

    assert [first.body, small.body, last.body] == [b"x", bytes(5), b"y"]
    with pytest.raises(BodyTooLarge, match=r"\(orders, queue 1 of a, offset 1\).*decompressed_bytes_max"):
        large.body  # noqa: B018
    assert (large.message_id, large.tags, large.queue_offset) == ("U1", "a", 1)
    assert large.properties["MIN_OFFSET"] == "0"
    assert b"offset 1" in shown_body(large)
    assert held_bytes(large) == large.size < MIB
    assert "BodyTooLarge" not in repr(small)
    assert "offset 1" in repr(large)


def test_an_unreadable_message_is_pickled_compared_and_mended() -> None:
    (large,) = received_messages(packed(1, 2 * MIB), "a", bytes_max=MIB)
    (same,) = received_messages(packed(1, 2 * MIB), "a", bytes_max=MIB)
    (other,) = received_messages(packed(2, 2 * MIB), "a", bytes_max=MIB)

    assert large == same == pickle.loads(pickle.dumps(large))
    assert large != other
    with pytest.raises(BodyTooLarge):
        must_read([pickle.loads(pickle.dumps(large))])
    large.body = b"mended"
    assert large.body == b"mended"
    assert pickle.loads(pickle.dumps(large)).body == b"mended"
    assert isinstance(large, UnreadableMessage)
    assert large.packing == 0


# Pulls ---------------------------------------------------------------------------------------------------


def stage_with(*records: bytes, bytes_max: int = MIB) -> Stage:
    stage = two_brokers()
    stage.settings = ClientSettings(decompressed_bytes_max=bytes_max)
    header = PullMessageAnswer(
        suggest_which_broker_id=0, next_begin_offset=len(records), min_offset=0, max_offset=99
    )
    stage.brokers["a:1"] = lambda _command: answer(header=header, body=b"".join(records))
    return stage


def pulled(stage: Stage, plan=pull) -> PullResult:
    session = stage.session()
    return stage.run(plan(session, PullQuery(QUEUE, 0, 32), pull_deadline(session, 0, None)))


def test_a_pull_ends_before_a_body_that_is_too_large() -> None:
    result = pulled(stage_with(record(0, b"x"), packed(1, 2 * MIB), record(2, b"y")))

    assert [message.body for message in result.messages] == [b"x"]
    assert result.next_offset == 1


def test_a_pull_at_a_body_that_is_too_large_names_it() -> None:
    with pytest.raises(BodyTooLarge, match="offset 0"):
        pulled(stage_with(packed(0, 2 * MIB), record(1, b"y")))


def test_poll_and_push_get_all_of_it() -> None:
    result = pulled(stage_with(packed(0, 2 * MIB), record(1, b"y")), pull_all)

    assert [message.queue_offset for message in result.messages] == [0, 1]
    assert result.next_offset == 2


@pytest.mark.parametrize("plan", [pull, pull_all])
@pytest.mark.usefixtures("traced")
def test_bodies_that_are_too_large_together_are_left_for_the_next_pull(plan) -> None:
    stage = stage_with(*(packed(offset, MIB) for offset in range(32)))

    result = pulled(stage, plan)

    assert [message.queue_offset for message in result.messages] == [0, 1, 2, 3]
    assert result.next_offset == 4
    assert tracemalloc.get_traced_memory()[1] < 16 * MIB


# Push ----------------------------------------------------------------------------------------------------


def test_a_listener_is_not_called_with_what_cannot_be_read() -> None:
    calls: list[Work] = []
    (large,) = received_messages(packed(1, 2 * MIB), "a", bytes_max=MIB)
    work = Work(None, [large], QUEUE)

    assert Listening("group", calls.append).start(work, 0) is None

    assert not calls
    assert isinstance(work.error, BodyTooLarge)
    assert work.verdict == "RECONSUME_LATER"


def test_what_is_held_counts_unpacked() -> None:
    (message,) = received_messages(packed(0, 5_000), "a")

    assert held_bytes(message) == 5_000
