"""A broker under callgrind, and a generator beside it: what a whole process does for each message.

    valgrind … python tools/process_workload.py MARKS SHAPE MESSAGES

Started by `kernel_instructions.py`. The generator is a process of its own, which valgrind does not follow.
Without a rate it is many times faster than the broker here, so each turn of the loop finds a request on every
connection; with one connection a turn has one message. With a rate that the broker keeps up with even here, a
turn has one event. Counting begins and ends while the generator sends, between two turns.
"""

import asyncio
import ctypes
import gc
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyromq.broker.broker import Broker
from pyromq.net.loop import run
from pyromq.testing.cluster import Cluster

TOPIC: Final = "guard"
LOOK_S: Final = 0.05
#: What `testing` makes small has its usual size: no file is filled while instructions are counted.
USUAL: Final[dict[str, Any]] = {
    "mapped_file_size_commit_log": 1 << 30,
    "mapped_file_size_consume_queue": 6_000_000,
    "max_hash_slot_num": 5_000_000,
    "max_index_num": 20_000_000,
}


@dataclass(frozen=True)
class Shape:
    """A load: the arguments of `pyromq bench`, and the queues of the topic."""

    load: tuple[str, ...]
    queues: int
    #: Sent before the first that is counted: Python takes the first of each queue, and code gets its caches.
    warm: int


SHAPES: Final = {
    "send at 64×1": Shape(("produce", "-c", "64", "-w", "1", "--keys"), 8, 2_000),
    "send at 1×1": Shape(("produce", "-c", "1", "-w", "1", "--keys"), 8, 2_000),
    # One send in flight: with more, those of a late generator share turns, and the count says how busy the
    # machine was.
    "send, wake, hold again": Shape(
        ("roundtrip", "-c", "1", "-w", "1", "--readers", "64", "-r", "200"), 64, 300
    ),
}


async def count(marks: ctypes.CDLL, name: str, messages: int) -> None:
    """Have messages sent, and tell callgrind when to count."""
    shape = SHAPES[name]
    async with Cluster(**USUAL) as cluster:
        broker = cluster.brokers["broker-a"]
        # As many more: all connections are busy until the counting ends, however late it began.
        total = messages + 2 * shape.warm
        generator = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pyromq", "bench", *shape.load, "-n", cluster.namesrv_address),
            *("-t", TOPIC, "-q", str(shape.queues), "--count", str(total), "--json"),
            stdout=asyncio.subprocess.DEVNULL,
        )
        await _until(broker, shape.warm, generator)
        # The garbage of the start is no send's.
        gc.collect()
        marks.begin()
        began_at = _stored(broker)
        await _until(broker, began_at + messages, generator)
        marks.end(f"whole process, {name}|{_stored(broker) - began_at}".encode())
        await generator.wait()


async def _until(broker: Broker, wanted: int, generator: asyncio.subprocess.Process) -> None:
    while _stored(broker) < wanted:
        if generator.returncode is not None:
            raise SystemExit("the generator ended too early")
        await asyncio.sleep(LOOK_S)


def _stored(broker: Broker) -> int:
    """Return how many messages the topic has."""
    return sum(queue.end for queue in broker.store.queues if queue.topic == TOPIC)


if __name__ == "__main__":
    run(count(ctypes.CDLL(Path(sys.argv[1]).as_posix()), sys.argv[2], int(sys.argv[3])))
