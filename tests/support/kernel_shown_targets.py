"""Popped records as messages of gRPC, driven with random inputs; see `kernel_targets`."""

from random import Random

from kernel_inputs import exact_bytes, expect, mostly, mutated, number, target

_NAMES = (
    *(
        "TAGS",
        "KEYS",
        "UNIQ_KEY",
        "TRAN_MSG",
        "DELAY",
        "TIMER_DELIVER_MS",
        "TIMER_DELAY_SEC",
        "__SHARDINGKEY",
    ),
    *("TRACE_CONTEXT", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "__LITE_TOPIC", "_SYS_MSG_PRIORITY_"),
    *("__BORNHOST", "WAIT", "CLUSTER", "POP_CK", "own", "a", "colour", "INNER_NUM"),
)
_VALUES = (
    "",
    "v",
    "true",
    "two words",
    " k1  k2 ",
    "1700000000123",
    "9" * 19,
    "12x",
    "ü",
    "消息",
    "x" * 200,
    "a\x01b",
)


def random_properties(random: Random) -> str:
    """Return a string of pairs, some twice, some that are none."""
    count = random.choice((0, 1, 3, 8, 8, 40))
    pairs = []
    for place in range(count):
        name = random.choice(_NAMES) if random.random() < 0.8 else f"n{place % 36}"
        pairs.append(f"{name}\x01{random.choice(_VALUES)}")
    return "\x02".join(pairs) + random.choice(("", "\x02"))


def random_record(random: Random) -> bytes:
    """Return a record as the store has it, of any kind of message."""
    from pyromq.codes import SysFlag
    from pyromq.wire.record import Record, encode_host, encode_record

    hosts = encode_host("127.0.0.1", 10911), encode_host("255.0.30.7", 65_535), encode_host("::1", 1)
    return encode_record(
        Record(
            "orders" if random.random() < 0.9 else "t" * 130,
            random.randbytes(random.choice((0, 1, 55, 56, 63, 64, 65, 119, 120, 127, 128, 1000))),
            queue_id=random.choice((0, 1, 300)),
            properties=random_properties(random),
            sys_flag=int(mostly(random, 0, SysFlag.COMPRESSED, SysFlag.TRANSACTION_COMMIT)),
            queue_offset=random.choice((0, 5, 1 << 40)),
            position=random.choice((0, 7000, 1 << 50)),
            born_at_ms=random.choice((0, 5, 1000, 1_700_000_000_123, -1)),
            born_host=mostly(random, *hosts),
            stored_at_ms=random.choice((0, 1_700_000_001_000)),
            store_host=mostly(random, *hosts),
            reconsume_times=random.choice((0, 3)),
        )
    )


@target("shown.ShownRecords")
def shown_records(random: Random) -> None:
    from pyromq._kernel.requests.shown import ShownRecords
    from pyromq.wire.grpc.reserved_names import RESERVED_NAMES

    kernel = ShownRecords(RESERVED_NAMES)
    for _ in range(random.randrange(1, 4)):
        records = [mutated(random, random_record(random)) for _ in range(random.randrange(1, 5))]
        if random.random() < 0.3:
            # Those of one length are digested together.
            alike = random_record(random)
            records += [mostly(random, alike, mutated(random, alike)) for _ in range(random.randrange(7, 18))]
        sizes = [mostly(random, len(each), 0, number(random, 31)) for each in records]
        numbers = [mostly(random, 5, number(random)) for _ in records]
        head = exact_bytes(random.choice((b"", b"0 1 60000 2 0 broker-a 3 ", b"h" * 300)))
        topic = exact_bytes(random.choice((b"\x0a\x08\x12\x06orders", b"")))
        frames, count = kernel.write(
            exact_bytes(b"".join(records)), 0, 0, sizes, numbers, numbers, numbers, head, topic,
            mostly(random, 1 << 20, 0, 100),
        )  # fmt: skip
        expect(0 <= count <= len(records), "no record that is not there")
        at = 0
        for _message in range(count):
            expect(frames[at] == 0, "a frame begins")
            at += 5 + int.from_bytes(frames[at + 1 : at + 5], "big")
        expect(at == len(frames), "frames are whole")


@target("popped_records.split_records")
def popped_records(random: Random) -> None:
    from pyromq._kernel.requests.popped_records import split_records
    from pyromq.broker.pop.pop_reading import split_records as split_by_python

    records = [random_record(random) for _ in range(random.choice((0, 1, 2, 5, 32, 70)))]
    whole = b"".join(records)
    split = split_records(exact_bytes(whole))
    expect(split is None or split == split_by_python(whole), "both say the same of whole records")
    bad = b"".join(mostly(random, each, mutated(random, each)) for each in records)
    split = split_records(exact_bytes(bad[: random.randrange(len(bad) + 1)]))
    if split is not None:
        expect(len({len(numbers) for numbers in split}) == 1, "all are of one length")
        expect(all(size > 0 for size in split[0]), "no record is empty")
