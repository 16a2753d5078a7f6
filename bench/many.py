"""What many topics and many connections cost a broker, without any load generator.

    .venv/bin/python bench/many.py [--topics N] [--queues N] [--connections N] [--folder FOLDER]

The store: a put into one queue and, in turn, into each of all queues; what an idle queue takes of memory; how
long the loop stands still while all queues are written, part by part; the sync in its thread; the start after
a clean stop and after a kill. The broker: what an idle connection takes of memory, and a sweep of time.
"""

import argparse
import asyncio
import gc
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from pyromq.clock import SystemClock
from pyromq.config.settings import MIB, BrokerProcess, BrokerSettings, NetSettings, StoreSettings
from pyromq.net.loop import run
from pyromq.store.store import Draft, MessageStore
from pyromq.wire.record import encode_host

HOST = encode_host("127.0.0.1", 10911)
BODY = b"x" * 128
CHUNK = 8000


def rss_bytes(pid: int | str = "self") -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def say(what: str, figure: str) -> None:
    """Print one line of the table."""
    print(f"{what:58s} {figure:>18s}", flush=True)


def seconds(action: Callable[[], object]) -> float:
    """Return how long something takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def drafts(topics: int, queues: int) -> list[Draft]:
    """Return one message for each queue."""
    properties = "UNIQ_KEY\x017F00000100010CA5D2F8000000000001\x02CLUSTER\x01DefaultCluster\x02TAGS\x01TagA"
    return [
        Draft(f"topic-{number:05d}", queue_id, BODY, properties, 0, 0, 1_700_000_000_000, HOST, HOST)
        for number in range(topics)
        for queue_id in range(queues)
    ]


def put_us(store: MessageStore, messages: Sequence[Draft]) -> float:
    """Return the microseconds that a put takes, the middle one of several runs."""

    def put_all(part: Sequence[Draft]) -> None:
        for message in part:
            store.put(message)

    parts = [messages[start : start + CHUNK] for start in range(0, len(messages), CHUNK)]
    return median(seconds(lambda part=part: put_all(part)) / len(part) * 1e6 for part in parts)  # type: ignore[misc]


def sync_in_parts(store: MessageStore, what: str) -> None:
    """Write and sync all queues as a broker does it, and print how long each part of it takes."""
    sync = store._begin_queue_sync()
    took = []
    while not sync.is_settled:
        took.append(seconds(sync.settle_some))
    say(f"{what}: written by the loop, in {len(took)} parts", f"{sum(took):.2f} s")
    say(f"{what}: the longest part", f"{max(took) * 1e3:.1f} ms")
    say(f"{what}: synced by a thread", f"{seconds(sync.run):.2f} s")


def measure_store(folder: Path, topics: int, queues: int) -> None:
    """Print the store's figures."""
    settings = StoreSettings(
        store_path_root_dir=str(folder), message_index_enable=False, mapped_file_size_commit_log=256 * MIB
    )
    store = MessageStore(settings, clock=SystemClock())
    store.open()
    messages = drafts(topics, queues)
    one_us = put_us(store, [messages[0]] * len(messages))
    gc.collect()
    before = rss_bytes()
    say("a put into one queue", f"{one_us:.2f} µs")
    first_us = put_us(store, messages)
    say(f"the first put into each of {len(messages):,} queues", f"{first_us:.2f} µs")
    many_us = median(put_us(store, messages) for _ in range(3))
    say(f"a later put into each of {len(messages):,} queues", f"{many_us:.2f} µs")
    say("  rate against one queue", f"{one_us / many_us:.0%}")
    sync_in_parts(store, "new queues")
    put_us(store, messages)
    sync_in_parts(store, "known queues")
    gc.collect()
    say("memory of an idle queue", f"{(rss_bytes() - before) / len(messages):,.0f} bytes")
    say("open files", f"{len(os.listdir('/proc/self/fd')):,}")
    store.put(messages[0])
    say("all queues idle but one: written and synced", f"{seconds(store.sync_queues) * 1e3:.2f} ms")
    store.close()
    say("start after a clean stop", f"{seconds(store.open):.2f} s")
    put_us(store, messages)
    store.sync()
    store._close_files()  # as a kill leaves them
    killed = MessageStore(settings, clock=SystemClock())
    say("start after a kill", f"{seconds(killed.open):.2f} s")
    killed.close()


async def serve(folder: str) -> None:
    """Be a broker that says its port and then only waits."""
    from pyromq.broker.broker import Broker

    broker = Broker(
        BrokerProcess(
            broker=BrokerSettings(listen_port=0),
            store=StoreSettings(store_path_root_dir=folder, message_index_enable=False),
            net=NetSettings(connections_max=100_000),
        )
    )
    await broker.start()
    print(broker.port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await broker.close()


def measure_connections(folder: Path, count: int) -> None:
    """Print the broker's figures: in a process of its own, as each connection has two ends."""
    command = [sys.executable, __file__, "--serve", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        before = rss_bytes(server.pid)
        clients: list[socket.socket] = []
        took = seconds(
            lambda: clients.extend(socket.create_connection(("127.0.0.1", port)) for _ in range(count))
        )
        time.sleep(1)
        say(f"{count:,} connections made", f"{took:.2f} s")
        say("memory of an idle connection", f"{(rss_bytes(server.pid) - before) / count:,.0f} bytes")
        used = cpu_seconds(server.pid)
        time.sleep(10)
        say("processor time of the idle broker with them", f"{(cpu_seconds(server.pid) - used) * 10:.2f} %")
        for client in clients:
            client.close()


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser(description="What many topics and many connections cost a broker.")
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--folder", default=None, help="where to make the stores")
    parser.add_argument("--serve", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.serve is not None:
        run(serve(options.serve))
        return
    where = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        if options.connections:
            measure_connections(where / "broker", options.connections)
        if options.topics:
            measure_store(where / "store", options.topics, options.queues)
    finally:
        shutil.rmtree(where)


if __name__ == "__main__":
    main()
