"""What a client pays for a pulled message, and Spark for its columns: with the compiled kernel, and without.

    .venv/bin/python bench/decode.py

Messages of 1 KiB with the properties that a Java client and a broker give them, checksums included. The best
of many turns counts, because it is the one that others disturbed least.
"""

import random
import time
from collections.abc import Callable
from typing import Any

from pyromq.client.consumer.incoming import pure_received_messages, received_messages
from pyromq.kernel import describe
from pyromq.wire.record import Record, encode_host, encode_record

TURNS = 20
COUNTS = (32, 1024)
HOST = encode_host("127.0.0.1", 10911)
ENDS = {"MIN_OFFSET": "0", "MAX_OFFSET": "1000"}


def pulled(count: int) -> bytes:
    """Return the body of a pull's answer."""
    chance = random.Random(1)
    return b"".join(
        encode_record(
            Record(
                topic="BenchmarkTest",
                body=chance.randbytes(1024),
                queue_offset=number,
                position=number * 1300,
                properties=f"UNIQ_KEY\x017F00000100010CA5D2F8{number:012X}\x02CLUSTER\x01DefaultCluster"
                f"\x02TAGS\x01TagA\x02KEYS\x01order-{number}",
                born_at_ms=1_700_000_000_000,
                born_host=HOST,
                stored_at_ms=1_700_000_000_000,
                store_host=HOST,
            )
        )
        for number in range(count)
    )


def best_us(prepare: Callable[[], Any], action: Callable[[Any], object], count: int) -> float:
    """Return the microseconds that an action takes for one of `count` messages."""
    best = float("inf")
    for _ in range(TURNS):
        given = prepare()
        begin = time.perf_counter()
        action(given)
        best = min(best, time.perf_counter() - begin)
    return best / count * 1e6


def read_all(messages: list[Any]) -> None:
    """Ask each message for what most applications want of it."""
    for message in messages:
        _ = message.body, message.properties, message.message_id


def columns(buffer: bytes, count: int) -> None:
    """Print what all columns cost, if Arrow and Spark are there."""
    try:
        from pyspark_rocketmq.source.columns import _COLUMNS, column, pure_column
    except ImportError:
        print("columns: pyarrow and pyspark are not installed")
        return

    def messages() -> list[Any]:
        return received_messages(buffer, "broker-a", ENDS)

    for name, fill in (("columns", column), ("columns, pure", pure_column)):

        def fill_all(messages: list[Any], fill: Any = fill) -> None:
            for one in _COLUMNS:
                fill(one, messages)

        print(f"{name:16s} {count:6d} {best_us(messages, fill_all, count):8.3f}")


def main() -> None:
    """Print microseconds for each message."""
    print(f"{describe()}; µs for each message\n{'':16s} {'pulled':>6s} {'made':>8s} {'then read':>10s}")
    for count in COUNTS:
        buffer = pulled(count)
        for name, make in (("messages", received_messages), ("messages, pure", pure_received_messages)):

            def messages(make: Any = make, buffer: bytes = buffer) -> list[Any]:
                return list(make(buffer, "broker-a", ENDS))

            def make_all(_: object, messages: Any = messages) -> None:
                messages()

            made = best_us(lambda: None, make_all, count)
            print(f"{name:16s} {count:6d} {made:8.3f} {best_us(messages, read_all, count):10.3f}")
    columns(pulled(4096), 4096)


if __name__ == "__main__":
    main()
