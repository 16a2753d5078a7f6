"""What one put and one get of the store cost, in microseconds of this process, without any network.

    .venv/bin/python bench/store_micro.py [FOLDER]

The first pass touches fresh pages, which is slow on a virtual machine; read the later ones.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyromq.clock import SystemClock
from pyromq.config.settings import StoreSettings
from pyromq.store.store import Draft, MessageStore
from pyromq.wire.record import encode_host

COUNT = 50_000
HOST = encode_host("127.0.0.1", 10911)
BODY = b"x" * 1024


def draft(number: int, queue_id: int, *, keys: bool) -> Draft:
    """Return a message of one KiB, with the properties that a Java client sends."""
    properties = f"UNIQ_KEY\x017F00000100010CA5D2F8{number:012X}\x02CLUSTER\x01DefaultCluster\x02TAGS\x01TagA"
    if keys:
        properties = f"KEYS\x01order-{number}\x02{properties}"
    return Draft("BenchmarkTest", queue_id, BODY, properties, 0, 0, 1_700_000_000_000, HOST, HOST)


def report(name: str, count: int, action: Callable[[], None]) -> None:
    """Print how long an action took for each of its `count` messages."""
    begin = time.perf_counter()
    action()
    print(f"{name:44s} {(time.perf_counter() - begin) / count * 1e6:7.2f} µs a message")


def run(folder: Path, *, index: bool) -> None:
    """Measure a store with or without its key index."""
    settings = StoreSettings(store_path_root_dir=str(folder), message_index_enable=index)
    store = MessageStore(settings, clock=SystemClock())
    store.open()
    with_index = "with" if index else "without"
    drafts = [draft(number, number % 4, keys=True) for number in range(COUNT)]

    def put_all() -> None:
        for one in drafts:
            store.put(one)

    def put_batches() -> None:
        for start in range(0, COUNT, 32):
            store.put_batch(drafts[start : start + 32])

    def get_all() -> None:
        for queue_id in range(4):
            offset = 0
            while offset < COUNT // 4:
                offset = store.get("BenchmarkTest", queue_id, offset, count_max=32).next_offset

    for turn in range(3):
        report(f"put, {with_index} index, pass {turn + 1}", COUNT, put_all)
    report(f"put, batches of 32, {with_index} index", COUNT, put_batches)
    report("get, 32 at a time, 4 queues interleaved", COUNT, get_all)
    report("sync of log, queues and index", 1, store.sync_queues)
    report("close", 1, store.close)
    report("open", 1, lambda: print(store.open()))
    store.close()


def main() -> None:
    """Run both in a folder of their own."""
    where = sys.argv[1] if len(sys.argv) > 1 else None
    for index in (False, True):
        with tempfile.TemporaryDirectory(dir=where) as folder:
            run(Path(folder), index=index)


if __name__ == "__main__":
    main()
