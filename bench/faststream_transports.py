"""Messages through FastStream on PyroMQ and on Redis streams, in turn: messages a second, and processor time.

python bench/faststream_transports.py [--messages 5000] [--rounds 3] [--under-way 64]

A round publishes all messages with one client, so many at a time, while nobody consumes; then a process with
one subscriber starts, handles them and counts. Its processor time has its start in it. Both acknowledge each
message behind its handler. Times of a busy machine mean nothing by themselves; look at the ratios.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "interop"), str(ROOT / "bench")]

from beside.transports import broker_of_its_own, print_medians, redis_used_s, until, used_s  # noqa: E402

#: A broker of FastStream, what it publishes to, and what it subscribes to, by the transport.
BROKERS = {
    "pyromq": """
from pyromq import ConsumeFrom
from pyromq.faststream import RocketBroker
broker = RocketBroker(ADDRESS, group="bench", logger=None)
target, source = {"topic": "orders"}, (["orders"], {"consume_from": ConsumeFrom.FIRST_OFFSET})
""",
    "redis": """
from faststream.redis import RedisBroker, StreamSub
broker = RedisBroker(ADDRESS, logger=None)
stream = StreamSub("orders", group="bench", consumer="one", last_id=">", max_records=32)
target, source = {"stream": "orders"}, ([], {"stream": stream})
""",
}
PUBLISH = """
import asyncio, sys, time
COUNT, UNDER_WAY = int(sys.argv[1]), int(sys.argv[2])
async def main():
    async with broker:
        left = iter(range(COUNT))
        async def some():
            for number in left:
                await broker.publish({"id": number, "amount": 12.5}, **target)
        begin, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(some() for _ in range(UNDER_WAY)))
        print(time.perf_counter() - begin, time.process_time() - cpu)
asyncio.run(main())
"""
CONSUME = """
import asyncio, os, sys
from faststream import FastStream
COUNT = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
@broker.subscriber(*source[0], **source[1])
async def handle(order: dict[str, float]) -> None:
    os.write(COUNT, b".")
asyncio.run(FastStream(broker, logger=None).run())
"""
#: Redis' group begins with what comes from then on, so it is made before the first message.
FIRST = """
import asyncio
async def main():
    await broker.connect()
    await broker._connection.xgroup_create("orders", "bench", id="0", mkstream=True)
    await broker.stop()
asyncio.run(main())
"""


class Measured(NamedTuple):
    """One round of one transport: a second, and microseconds of processor time for a message."""

    sent: float
    send_us: float
    done: float
    consumer_us: float
    server_us: float


def program(transport: str, address: str, then: str) -> list[str]:
    """Return a command that makes the transport's broker and goes on with a program."""
    return [sys.executable, "-c", f"ADDRESS = {address!r}\n{BROKERS[transport]}\n{then}"]


def measure(
    transport: str, address: str, server_s: Callable[[], float], options: argparse.Namespace
) -> Measured:
    """Publish and handle all messages once; `server_s` says what processor time the server used so far."""
    count_max: int = options.messages
    server_before_s = server_s()
    with tempfile.TemporaryDirectory() as folder:
        count = Path(folder) / "count"
        publishing = subprocess.run(
            [*program(transport, address, PUBLISH), str(count_max), str(options.under_way)],
            capture_output=True,
            text=True,
            check=True,
        )
        send_s, send_cpu_s = map(float, publishing.stdout.split())
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        consumer = subprocess.Popen([*program(transport, address, CONSUME), str(count)], env=os.environ)
        try:
            began = until(count, count_max // 10)
            ended = until(count, count_max)
        finally:
            consumer.terminate()
            consumer.wait(60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    each_us = 1e6 / count_max
    return Measured(
        sent=count_max / send_s,
        send_us=send_cpu_s * each_us,
        done=(count_max - count_max // 10) / (ended - began),
        consumer_us=cpu_s * each_us,
        server_us=(server_s() - server_before_s) * each_us,
    )


def main() -> None:
    """Run both transports in turn, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--under-way", type=int, default=64)
    options = parser.parse_args()
    from redis_server import running_redis

    with ExitStack() as closing:
        port = closing.enter_context(running_redis())
        address, pid = broker_of_its_own(closing)
        url = f"redis://127.0.0.1:{port}/0"
        subprocess.run(program("redis", url, FIRST), check=True)
        both = {"pyromq": (address, partial(used_s, pid)), "redis": (url, partial(redis_used_s, port))}
        found: dict[str, list[Measured]] = {name: [] for name in both}
        for _ in range(options.rounds):
            for name, (where, server_s) in both.items():
                found[name].append(measure(name, where, server_s, options))
    print(f"{options.messages} messages, {options.under_way} under way, {options.rounds} rounds; medians")
    print_medians(found)


if __name__ == "__main__":
    main()
