"""The kernel writes popped records as Python does, and leaves alone what is not plain."""

import hashlib
from random import Random

import pytest
from effort import times
from kernel_shown_targets import random_record

from pyromq.wire.grpc.receive_answers import framed
from pyromq.wire.grpc.reserved_names import RESERVED_NAMES
from pyromq.wire.grpc.shown_messages import field, shown_message, shown_topic
from pyromq.wire.record import Record, encode_host, encode_record

shown = pytest.importorskip("pyromq._kernel.requests.shown")

HEAD = b"41 1700000000000 60000 3 0 broker-a 2 "
TOPIC = shown_topic("orders")


def by_kernel(*records: bytes, attempt: int = 1, bytes_max: int = 1 << 20) -> tuple[bytes, int]:
    count = len(records)
    found: tuple[bytes, int] = shown.ShownRecords(RESERVED_NAMES).write(
        b"".join(records),
        0,
        0,
        [len(each) for each in records],
        list(range(41, 41 + count)),
        list(range(7000, 7000 + count)),
        [attempt] * count,
        HEAD,
        TOPIC,
        bytes_max,
    )
    return found


def by_python(record: bytes, attempt: int = 1) -> bytes:
    message = shown_message(record, TOPIC, body_bytes_max=1 << 20, receipt=HEAD + b"41 7000", attempt=attempt)
    return framed(field(b"\x12", message))


def plain(body: bytes = b"hello", properties: str = "TAGS\x01a\x02own\x01v", **changes: object) -> bytes:
    hosts = {"born_host": encode_host("127.0.0.1", 1), "store_host": encode_host("10.0.0.2", 10911)}
    return encode_record(Record("orders", body, properties=properties, **(hosts | changes)))  # type: ignore[arg-type]


def test_random_records_are_the_same_bytes() -> None:
    random, written = Random(2026), 0
    for _ in range(times(3_000)):
        record, attempt = random_record(random), random.choice((1, 1, 2, 300))
        frames, count = by_kernel(record, attempt=attempt)
        if count:
            assert frames == by_python(record, attempt)
            written += 1
        else:
            assert frames == b""
    assert written > times(1_000)


@pytest.mark.parametrize("length", [*range(130), 1_000, 65_535, 1 << 20])
def test_the_digest_of_any_length_is_md5(length: int) -> None:
    body = Random(length).randbytes(length)
    frames, count = by_kernel(plain(body))

    assert count == 1
    assert hashlib.md5(body).hexdigest().upper().encode() in frames
    assert frames == by_python(plain(body))


@pytest.mark.parametrize("length", [0, 1, 55, 56, 63, 64, 65, 119, 120, 1_000, 5_000])
@pytest.mark.parametrize("count", [8, 9, 20, 32])
def test_the_digests_of_bodies_of_one_length_are_made_together(count: int, length: int) -> None:
    random = Random(length)
    bodies = [random.randbytes(length) for _ in range(count)]
    frames, written = by_kernel(*map(plain, bodies))

    assert written == count
    digests = [hashlib.md5(body).hexdigest().upper().encode() for body in bodies]
    at = 0
    for digest in digests:
        at = frames.index(digest, at) + len(digest)


def test_a_run_of_bodies_of_many_lengths_is_the_same_bytes() -> None:
    random = Random(8)
    for _ in range(times(60)):
        length = random.choice((10, 1_000))
        bodies = [
            random.randbytes(length if random.random() < 0.95 else random.randrange(1_200)) for _ in range(20)
        ]
        frames, written = by_kernel(*map(plain, bodies))
        assert written == 20
        at = 0
        for body in bodies:
            digest = hashlib.md5(body).hexdigest().upper().encode()
            at = frames.index(digest, at) + len(digest)


@pytest.mark.parametrize("length", [1, 127, 128, 12_000, 20_000])
def test_long_properties_are_the_same_bytes(length: int) -> None:
    properties = f"own\x01{'v' * length}\x02{'n' * (length // 8 + 1)}\x01ü\x02KEYS\x01{'k ' * (length // 4)}"
    assert by_kernel(plain(properties=properties)) == (by_python(plain(properties=properties)), 1)


def test_many_records_are_one_behind_the_other() -> None:
    records = [plain(b"%d" % number) for number in range(40)]
    frames, count = by_kernel(*records)
    one_by_one = b"".join(by_kernel(each)[0] for each in records[:1])

    assert count == 40
    assert frames.startswith(one_by_one)
    assert by_kernel(*records, bytes_max=len(one_by_one) * 3)[1] == 3


@pytest.mark.parametrize(
    "record",
    [
        plain(sys_flag=1),
        plain(properties="own\x01v\x02own\x01w"),
        plain(properties="TAGS\x01v\x02TAGS\x01w"),
        plain(properties="\x02".join(f"n{number}\x01v" for number in range(33))),
        plain(born_at_ms=-1),
        plain(born_host=encode_host("::1", 1)),
        plain(properties="own\x01ab").replace(b"ab", b"\xff\xfe"),
        plain()[:-1],
    ],
    ids=["compressed", "twice", "a tag twice", "many", "before 1970", "IPv6", "no UTF-8", "torn"],
)
def test_what_is_not_plain_is_python_s(record: bytes) -> None:
    assert by_kernel(record) == (b"", 0)
    frames, count = by_kernel(plain(), record, plain())
    assert (frames, count) == (by_python(plain()), 1)


def test_names_that_are_alike_are_told_apart() -> None:
    """Each hidden name hides itself only."""
    for name in sorted(RESERVED_NAMES):
        for own in (name + "x", "x" + name, name.lower(), name[:-1]):
            if own and own not in RESERVED_NAMES:
                properties = f"{own}\x01v"
                assert by_kernel(plain(properties=properties)) == (by_python(plain(properties=properties)), 1)
        assert by_kernel(plain(properties=f"{name}\x01v"))[0] == by_python(plain(properties=f"{name}\x01v"))
