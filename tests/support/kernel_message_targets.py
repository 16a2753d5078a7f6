"""Pulled messages and their columns, driven with random inputs; see `kernel_targets`."""

from contextlib import suppress
from random import Random

from kernel_inputs import expect, module, mutated, number, target

from pyromq.errors import PyroError


@target(
    "records.read_messages",
    "records.ReceivedMessage",
    "columns.numbers",
    "columns.texts",
    "columns.pairs",
    "columns.due_times",
    "columns.named",
)
def pulled_messages(random: Random) -> None:
    from pyromq.client.consumer.incoming import received_messages

    tags = frozenset(random.choice(((), (), ("a",), ("ü", "b"))))
    try:
        messages = received_messages(pulled_bytes(random), "broker-a", {"MIN_OFFSET": "0"}, tags)
    except PyroError:
        return
    for message in messages:
        kind = random.randrange(6)
        if kind == 0:
            restore, values = message.__reduce__()  # type: ignore[misc]  # both are there
            expect(restore(*values) == message, "a message is what its fields say")
        elif kind == 1:
            setattr(message, random.choice(("queue_offset", "position", "born_at_ms")), number(random))
        elif kind == 2:
            message.body, message.properties = b"new", {"TAGS": "é", "": ""}
    columns = module("columns")
    for name in random.sample(("queue_id", "queue_offset", "born_timestamp", "flag"), 2):
        with suppress(OverflowError):
            width = 8 if name in ("queue_offset", "born_timestamp") else 4
            expect(len(columns.numbers(messages, name)) == width * len(messages), "a number for each")
    for name in random.sample(("topic", "broker", "msg_id", "tags", "body", "born_host"), 3):
        expect(len(columns.texts(messages, name)[1]) == 4 * len(messages) + 4, "a text for each")
    walked = columns.named(messages, ("msg_id", "tags", "keys", "message_group"))
    expect(all(len(offsets) == 4 * len(messages) + 4 for _, offsets, _ in walked), "a text for each")
    expect(len(columns.due_times(messages)[1]) == 8 * len(messages), "a time for each")
    rows, (names, _), (values, _) = columns.pairs(messages)
    expect(len(rows) == 4 * len(messages) + 4 and len(names) == len(values), "a row of pairs for each")


def pulled_bytes(random: Random) -> bytes:
    """Return records as a pull brings them, some damaged, compressed, or with a checksum that still holds."""
    from pyromq.wire.record import Record, encode_host, encode_record

    hosts = encode_host("127.0.0.1", 10911), encode_host("::1", 1)
    many = "\x02".join(f"n{number % 33}\x01v" for number in range(random.choice((2, 31, 32, 33, 40))))
    texts = (
        "",
        "TAGS\x01a",
        "TAGS\x01ü\x02TAGS\x01b\x02\x01\x02x\x01\x02",
        "UNIQ_KEY\x01é\x02KEYS\x01a b",
        many,
    )
    pulled = b""
    for _ in range(random.randrange(1, 12)):
        record = Record(
            topic=random.choice(("a", "a", "orders", "ünï", "x" * 130, "")),
            body=random.randbytes(random.choice((0, 1, 64, 300))),
            queue_id=random.randrange(3),
            sys_flag=random.choice((0, 0, 0, 0, 0, 1, 4)),
            properties=random.choice(texts),
            born_host=hosts[random.random() < 0.1],
            born_at_ms=number(random),
        )
        encoded = encode_record(record)
        pulled += mutated(random, encoded) if random.random() < 0.1 else encoded
    return pulled
