"""Puts messages into a store without end, and prints each that is safe: run by a test that kills it.

    python store_writer.py FOLDER SEED

One thread appends; another syncs meanwhile, as in a broker. A line is printed for each message once a sync
that began after its append has ended: topic, queue, offset, position, checksum of the body.
"""

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from zlib import crc32

from pyromq.clock import SystemClock
from pyromq.config.settings import StoreSettings
from pyromq.store.store import Draft, MessageStore, Placed
from pyromq.wire.record import encode_host

HOST = encode_host("127.0.0.1", 10911)


def main() -> None:
    """Write until killed."""
    folder, seed = sys.argv[1:]
    chance = random.Random(seed)
    store = MessageStore(
        StoreSettings(
            store_path_root_dir=folder,
            mapped_file_size_commit_log=256 * 1024,
            mapped_file_size_consume_queue=20_000,
            max_hash_slot_num=1000,
            max_index_num=4000,
        ),
        clock=SystemClock(),
    )
    report = store.open()
    print("open", report.replayed, flush=True)
    number = 0
    with ThreadPoolExecutor(1) as thread:
        while True:
            syncing = thread.submit(store.sync)
            waiting: list[tuple[Draft, Placed]] = []
            while not syncing.done() or not waiting:
                number += 1
                drafts = [_draft(chance, number, part) for part in range(chance.choice([1, 1, 1, 5]))]
                waiting += zip(drafts, store.put_batch(drafts), strict=True)
            if chance.random() < 0.2:
                thread.submit(store.queue_sync().run).result()
            safe = thread.submit(store.sync).result()
            lines = [
                f"{draft.topic} {draft.queue_id} {placed.queue_offset} {placed.position} {crc32(draft.body)}"
                for draft, placed in waiting
                if placed.end <= safe
            ]
            print("\n".join(lines), flush=True)


def _draft(chance: random.Random, number: int, part: int) -> Draft:
    body = chance.randbytes(chance.choice([0, 10, 100, 1000, 5000]))
    properties = f"KEYS\x01k{number}-{part}\x02TAGS\x01t"
    return Draft(
        chance.choice(["orders", "other"]), chance.randrange(4), body, properties, 0, 0, 0, HOST, HOST
    )


if __name__ == "__main__":
    main()
