"""PyroMQ's client under load, for bench/client.py.

ours.py NAME_SERVER MODE TOPIC SIZE WARM_S RUN_S COUNT
"""

import asyncio
import json
import sys
import threading
import time
from dataclasses import dataclass

from pyromq import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage, aio
from pyromq.net.loop import new_event_loop

#: Asynchronous sends under way.
WINDOW = 256
THREADS = 64


@dataclass
class Load:
    """What is asked of a program."""

    name_server: str
    topic: str
    size: int
    warm_s: float
    run_s: float
    count: int


class Meter:
    """Counts from the end of the warm-up on, with the processor time of this process."""

    def __init__(self) -> None:
        self.messages = 0
        self._began = (time.monotonic(), time.process_time())

    def begin(self) -> None:
        """Count from now on."""
        self.messages = 0
        self._began = (time.monotonic(), time.process_time())

    def end(self) -> None:
        """Print what was counted."""
        seconds = time.monotonic() - self._began[0]
        cpu_seconds = time.process_time() - self._began[1]
        print(json.dumps({"messages": self.messages, "seconds": seconds, "cpu_seconds": cpu_seconds}))


def send_one_after_the_other(load: Load) -> None:
    """Send on one thread, and wait for each answer."""
    meter, body = Meter(), b"x" * load.size
    with Producer("bench_ours", load.name_server) as producer:
        for seconds in (load.warm_s, load.run_s):
            meter.begin()
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                producer.send(Message(load.topic, body))
                meter.messages += 1
        meter.end()


def send_on_threads(load: Load) -> None:
    """Send on many threads with one producer, each the next message when its last is acknowledged."""
    meter, body = Meter(), b"x" * load.size

    def send_until(deadline: float, into: list[int]) -> None:
        count = 0
        while time.monotonic() < deadline:
            producer.send(Message(load.topic, body))
            count += 1
        into.append(count)

    with Producer("bench_ours", load.name_server) as producer:
        for seconds in (load.warm_s, load.run_s):
            meter.begin()
            counts: list[int] = []
            until = time.monotonic() + seconds
            threads = [threading.Thread(target=send_until, args=(until, counts)) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(counts) == THREADS, "a thread's send failed"
            meter.messages = sum(counts)
        meter.end()


async def send_many_at_once(load: Load) -> None:
    """Send from as many coroutines as sends may be under way."""
    meter, body = Meter(), b"x" * load.size
    async with aio.Producer("bench_ours", load.name_server) as producer:

        async def send_until(deadline: float) -> None:
            while time.monotonic() < deadline:
                await producer.send(Message(load.topic, body))
                meter.messages += 1

        for seconds in (load.warm_s, load.run_s):
            meter.begin()
            deadline = time.monotonic() + seconds
            await asyncio.gather(*(send_until(deadline) for _ in range(WINDOW)))
        meter.end()


def push_to_threads(load: Load) -> None:
    """Have a function count a topic's messages."""
    meter, ended, lock = Meter(), threading.Event(), threading.Lock()
    warm = load.count // 5

    def handle(_message: ReceivedMessage) -> None:
        with lock:
            meter.messages += 1
            if meter.messages == warm:
                meter.begin()
                meter.messages = warm
            if meter.messages == load.count:
                ended.set()

    consumer = PushConsumer(
        f"bench_ours_{time.time_ns()}",
        load.name_server,
        listener=handle,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    )
    consumer.subscribe(load.topic)
    with consumer:
        assert ended.wait(120)
        meter.messages -= warm
        meter.end()


async def push_to_coroutines(load: Load) -> None:
    """Have a coroutine function count a topic's messages."""
    meter, ended = Meter(), asyncio.Event()
    warm = load.count // 5

    async def handle(_message: ReceivedMessage) -> None:
        meter.messages += 1
        if meter.messages == warm:
            meter.begin()
            meter.messages = warm
        if meter.messages == load.count:
            ended.set()

    consumer = aio.PushConsumer(
        f"bench_ours_{time.time_ns()}",
        load.name_server,
        listener=handle,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    )
    consumer.subscribe(load.topic)
    async with consumer:
        await asyncio.wait_for(ended.wait(), 120)
        meter.messages -= warm
        meter.end()


def main(name_server: str, mode: str, topic: str, size: str, warm_s: str, run_s: str, count: str) -> None:
    """Do what the mode says."""
    load = Load(name_server, topic, int(size), float(warm_s), float(run_s), int(count))
    if mode == "sync":
        send_one_after_the_other(load)
    elif mode == "threads":
        send_on_threads(load)
    elif mode == "push":
        push_to_threads(load)
    else:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(send_many_at_once(load) if mode == "async" else push_to_coroutines(load))


if __name__ == "__main__":
    main(*sys.argv[1:])
