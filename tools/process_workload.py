"""A broker under callgrind, and sends of a generator beside it: what a whole process does for each of them.

    valgrind … python tools/process_workload.py MARKS CONNECTIONS:MESSAGES …

Started by `kernel_instructions.py`. The generator is a process of its own, which valgrind does not follow.
It is many times faster than the broker here, so each turn of the loop finds a request on every connection.
With one connection a turn has one message, as all turns have at a low rate.
Counting begins and ends while it sends, between two turns. Each load has a broker of its own.
"""

import asyncio
import ctypes
import gc
import sys
from pathlib import Path
from typing import Any, Final

from pyromq.broker.broker import Broker
from pyromq.net.loop import run
from pyromq.testing.cluster import Cluster

TOPIC: Final = "guard"
QUEUES: Final = 8
#: Sent before the first that is counted: Python takes the first of each queue, and code gets its caches.
WARM: Final = 2_000
LOOK_S: Final = 0.1
#: What `testing` makes small has its usual size: no file is filled while instructions are counted.
USUAL: Final[dict[str, Any]] = {
    "mapped_file_size_commit_log": 1 << 30,
    "mapped_file_size_consume_queue": 6_000_000,
    "max_hash_slot_num": 5_000_000,
    "max_index_num": 20_000_000,
}


async def count(marks: ctypes.CDLL, connections: int, messages: int) -> None:
    """Have messages sent, and tell callgrind when to count."""
    async with Cluster(**USUAL) as cluster:
        broker = cluster.brokers["broker-a"]
        options = ["-t", TOPIC, "-q", str(QUEUES), "-c", str(connections), "-w", "1", "--keys"]
        # As many more: all connections are busy until the counting ends, however late it began.
        total = messages + 2 * WARM
        generator = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pyromq", "bench", "produce", "-n", cluster.namesrv_address),
            *(*options, "--count", str(total), "--json"),
            stdout=asyncio.subprocess.DEVNULL,
        )
        await _until(broker, WARM, generator)
        # The garbage of the start is no send's.
        gc.collect()
        marks.begin()
        began_at = _stored(broker)
        await _until(broker, began_at + messages, generator)
        marks.end(f"whole process, send at {connections}×1|{_stored(broker) - began_at}".encode())
        await generator.wait()


async def _until(broker: Broker, wanted: int, generator: asyncio.subprocess.Process) -> None:
    while _stored(broker) < wanted:
        if generator.returncode is not None:
            raise SystemExit("the generator ended too early")
        await asyncio.sleep(LOOK_S)


def _stored(broker: Broker) -> int:
    """Return how many messages the topic has."""
    queues = (broker.store.queue(TOPIC, number) for number in range(QUEUES))
    return sum(queue.end for queue in queues if queue is not None)


async def count_all(marks: ctypes.CDLL, loads: list[str]) -> None:
    """Count one load after the other."""
    for load in loads:
        connections, messages = map(int, load.split(":"))
        await count(marks, connections, messages)


if __name__ == "__main__":
    run(count_all(ctypes.CDLL(Path(sys.argv[1]).as_posix()), sys.argv[2:]))
