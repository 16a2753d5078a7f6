"""What one put and one get of the store cost, in microseconds of this process, without any network.

    .venv/bin/python bench/store_micro.py [FOLDER]

Each figure is the cost of a message in the fastest and in the middle one of many runs of 1024 messages; the
first of them touch fresh pages, which is slow on a virtual machine.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import median

from pyromq.clock import SystemClock
from pyromq.config.settings import StoreSettings
from pyromq.store.store import Draft, MessageStore
from pyromq.wire.record import encode_host

COUNT = 51_200
CHUNK = 1024
HOST = encode_host("127.0.0.1", 10911)
BODY = b"x" * 1024


def draft(number: int, queue_id: int, *, keys: bool) -> Draft:
    """Return a message of one KiB, with the properties that a Java client sends."""
    properties = f"UNIQ_KEY\x017F00000100010CA5D2F8{number:012X}\x02CLUSTER\x01DefaultCluster\x02TAGS\x01TagA"
    if keys:
        properties = f"KEYS\x01order-{number}\x02{properties}"
    return Draft("BenchmarkTest", queue_id, BODY, properties, 0, 0, 1_700_000_000_000, HOST, HOST)


def report(name: str, count: int, actions: Iterable[Callable[[], None]]) -> None:
    """Print what a message costs in the fastest and the middle one of some actions of `count` messages."""
    took = []
    for action in actions:
        begin = time.perf_counter()
        action()
        took.append((time.perf_counter() - begin) / count * 1e6)
    print(f"{name:46s} {min(took):9.2f} µs   median {median(took):9.2f}")


def run(folder: Path, *, index: bool) -> None:
    """Measure a store with or without its key index."""
    settings = StoreSettings(store_path_root_dir=str(folder), message_index_enable=index)
    store = MessageStore(settings, clock=SystemClock())
    store.open()
    with_index = "with" if index else "without"
    drafts = [draft(number, number % 4, keys=True) for number in range(COUNT)]

    chunks = [drafts[start : start + CHUNK] for start in range(0, COUNT, CHUNK)]

    def put(chunk: list[Draft]) -> None:
        for one in chunk:
            store.put(one)

    def put_batches(chunk: list[Draft]) -> None:
        for start in range(0, CHUNK, 32):
            store.put_batch(chunk[start : start + 32])

    def get(start: int) -> None:
        for queue_id in range(4):
            for offset in range(start // 4, (start + CHUNK) // 4, 32):
                store.get("BenchmarkTest", queue_id, offset, count_max=32)

    def reopen() -> None:
        store.close()
        store.open()

    report(f"put, {with_index} index", CHUNK, [partial(put, chunk) for chunk in chunks])
    report(
        f"put, batches of 32, {with_index} index", CHUNK, [partial(put_batches, chunk) for chunk in chunks]
    )
    report(
        "get, 32 at a time, 4 queues interleaved", CHUNK, [partial(get, n) for n in range(0, COUNT, CHUNK)]
    )
    report("sync of log, queues and index, all together", 1, [store.sync_queues])
    report("close and open, together", 1, [reopen] * 5)
    store.close()


def main() -> None:
    """Run both in a folder of their own."""
    where = sys.argv[1] if len(sys.argv) > 1 else None
    for index in (False, True):
        with tempfile.TemporaryDirectory(dir=where) as folder:
            run(Path(folder), index=index)


if __name__ == "__main__":
    main()
