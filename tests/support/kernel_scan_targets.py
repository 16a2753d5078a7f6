"""Pulled bytes that become columns, driven with random inputs; see `kernel_targets`."""

from random import Random

from kernel_inputs import exact_bytes, expect, module, target

COLUMNS = (
    "topic",
    "broker",
    "queue_id",
    "queue_offset",
    "msg_id",
    "tags",
    "keys",
    "body",
    "properties",
    "born_timestamp",
    "store_timestamp",
    "reconsume_times",
    "born_host",
    "message_group",
    "deliver_at",
    "flag",
    "sys_flag",
)


@target("scan.Scan")
def scan(random: Random) -> None:
    from kernel_message_targets import pulled_bytes

    names = tuple(random.sample(COLUMNS, random.randrange(1, len(COLUMNS) + 1)))
    scanned = module("scan").Scan(names)
    for _ in range(random.randrange(1, 4)):
        pulled, rows = exact_bytes(pulled_bytes(random)), scanned.rows
        tags = frozenset(random.choice(((), (), ("a",), ("ü", "b"))))
        end = random.choice((0, 1, 1 << 62))
        stop = scanned.add(pulled, random.choice(("broker-a", "ü", "")), tags, end)
        expect(0 <= stop <= len(pulled) and scanned.rows >= rows, "it stops within the bytes")
        if random.random() < 0.5:
            _take(scanned, names)
    _take(scanned, names)


def _take(scanned: object, names: tuple[str, ...]) -> None:
    rows = scanned.rows  # type: ignore[attr-defined]  # the module is another one for each build
    taken = scanned.take()  # type: ignore[attr-defined]
    expect(len(taken) == len(names) and scanned.rows == 0, "all columns are taken")  # type: ignore[attr-defined]
    for name, buffers in zip(names, taken, strict=True):
        if name == "properties":
            ends, (pair_names, _), (pair_values, _) = buffers
            expect(len(ends) == 4 * (rows + 1), "a row of pairs for each")
            expect(len(pair_names) == len(pair_values), "a value for each name")
        elif len(buffers) == 3:
            expect(len(buffers[1]) == 4 * (rows + 1), "a text for each")
        else:
            expect(len(buffers[1]) in (4 * rows, 8 * rows), "a number for each")
