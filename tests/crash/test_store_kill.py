"""`kill -9` of a process that writes: what it said was safe is there, and what is there is whole."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from pyromq.clock import SystemClock
from pyromq.config.settings import StoreSettings
from pyromq.store.store import MessageStore
from pyromq.wire.record import Record, iter_records

WRITER = Path(__file__).with_name("store_writer.py")
KILLS = 6


def open_store(folder: Path) -> MessageStore:
    store = MessageStore(
        StoreSettings(
            store_path_root_dir=str(folder),
            mapped_file_size_commit_log=256 * 1024,
            mapped_file_size_consume_queue=20_000,
            max_hash_slot_num=1000,
            max_index_num=4000,
        ),
        clock=SystemClock(),
    )
    store.open()
    return store


def write_and_kill(folder: Path, seed: int) -> list[tuple[str, int, int, int, int]]:
    """Let a process write for a random while, kill it, and return what it said was safe."""
    chance = random.Random(seed)
    process = subprocess.Popen(
        [sys.executable, str(WRITER), str(folder), str(seed)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        lines = [process.stdout.readline() for _ in range(chance.randrange(2, 1500))]
        os.kill(process.pid, signal.SIGKILL)
        # What it printed before the end counts, except for a line that the end cut in two.
        lines += [line for line in process.stdout if line.endswith("\n")]
    assert process.wait() == -signal.SIGKILL
    assert lines[0].startswith("open"), lines[:3]
    return [_safe(line) for line in lines[1:] if len(line.split()) == 5]


def _safe(line: str) -> tuple[str, int, int, int, int]:
    topic, queue_id, offset, position, crc = line.split()
    return topic, int(queue_id), int(offset), int(position), int(crc)


def read_queue(store: MessageStore, topic: str, queue_id: int) -> Iterator[Record]:
    offset = 0
    while offset < store.max_offset(topic, queue_id):
        got = store.get(topic, queue_id, offset, count_max=32)
        assert got.next_offset > offset, got
        yield from iter_records(got.body)
        offset = got.next_offset


@pytest.mark.row("ST-02", "FL-02")
@pytest.mark.timeout(300)
def test_nothing_that_was_safe_is_lost_when_the_process_is_killed(tmp_path):
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    safe: dict[tuple[str, int, int], tuple[int, int]] = {}
    for turn in range(KILLS):
        for topic, queue_id, offset, position, crc in write_and_kill(tmp_path / "store", seed + turn):
            assert (topic, queue_id, offset) not in safe
            safe[topic, queue_id, offset] = position, crc

    store = open_store(tmp_path / "store")

    found = {}
    for topic in ("orders", "other"):
        for queue_id in range(4):
            for expected, record in enumerate(read_queue(store, topic, queue_id)):
                assert (record.topic, record.queue_id, record.queue_offset) == (topic, queue_id, expected)
                found[topic, queue_id, expected] = record.position, crc32(record.body)
    assert {key: found.get(key) for key in safe} == safe
    assert len(safe) >= KILLS
    store.close()
