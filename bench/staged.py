"""Messages a second through stage and publish, into one broker process, beside plain batch sends.

    .venv/bin/python bench/staged.py [--messages 2000000] [--body 100] [--folder DIR] [--pure]

The broker is a process of its own, with its data in a temporary folder. One client stages chunks of about 1
MiB, encoded beforehand, over four queues, then publishes the batch; the same chunks are then sent as ordinary
batches. While the batch is published, another client asks for an offset again and again: its slowest answer
says how long others wait. The last column are the messages for each second that the broker's process ran.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from pyromq import Admin, MessageQueue, PullConsumer
from pyromq.bench.process import usage_of
from pyromq.client.steps import request
from pyromq.client.sync.staged import StagedSends
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import NetSettings
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.waiting import eventually
from pyromq.wire.batch import BatchUnit, encode_batch
from pyromq.wire.headers.send_headers import SendMessageV2

TOPIC, QUEUES, CHUNK_BYTES = "orders", 4, 1 << 20


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--body", type=int, default=100)
    parser.add_argument("--folder", help="where the broker's data goes, for a while (default: the system's)")
    parser.add_argument("--pure", action="store_true", help="without the compiled kernel in the broker")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-", dir=arguments.folder) as folder:
        broker, name_server = start(Path(folder), is_pure=arguments.pure)
        try:
            measure(name_server, broker.pid, arguments.messages, arguments.body)
        finally:
            broker.terminate()
            broker.wait(30)


def start(folder: Path, *, is_pure: bool) -> tuple["subprocess.Popen[bytes]", str]:
    """Start a name server and a broker in one process; return it and the name server's address."""
    ready = folder / "ready"
    environment = os.environ | {"PYROMQ_PURE": "1" if is_pure else "0"}
    command = [
        sys.executable,
        "-m",
        "pyromq",
        "up",
        "--data",
        str(folder / "data"),
        "--ready-file",
        str(ready),
    ]
    command += ["--namesrv-port", "0", "--broker-port", "0"]
    broker = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: ready.exists() and ready.stat().st_size, 30.0, what="the broker is ready")
    return broker, json.loads(ready.read_text())["namesrv"]


def chunk_of(number: int, count: int, body: bytes) -> bytes:
    """Return a chunk of messages whose unique ids nobody else has."""
    return encode_batch(
        [BatchUnit(0, body, f"UNIQ_KEY\x01{number:016X}{at:016X}\x02TAGS\x01paid") for at in range(count)]
    )


def measure(name_server: str, process_id: int, messages: int, body_bytes: int) -> None:
    """Stage, publish, and send the same in batches."""
    body = b"x" * body_bytes
    per_chunk = CHUNK_BYTES // len(chunk_of(0, 1, body))
    chunks = [chunk_of(number, per_chunk, body) for number in range(messages // per_chunk)]
    messages = len(chunks) * per_chunk
    print(f"{messages:,} messages of {body_bytes} bytes in {len(chunks)} chunks")
    watch = Watch(process_id, messages)
    with Admin(name_server) as admin, StagedSends(name_server) as sends:
        admin.create_topic(TOPIC, QUEUES)
        watch.lap()
        writer = sends.writer(query="bench", batch=0, part=0)
        queues = writer.queues(TOPIC)
        for number, chunk in enumerate(chunks):
            writer.stage(queues[number % QUEUES], chunk, per_chunk)
        part = writer.finish()
        staged = watch.lap("stage")
        with Asking(name_server, queues[0]) as asking:
            sends.publish([part])
        published = watch.lap("publish")
        watch.report("stage + publish", staged[0] + published[0], staged[1] + published[1])
        print(f"another client's slowest answer meanwhile: {asking.slowest_s * 1e3:.1f} ms")
        assert sum(map(admin.max_offset, queues)) == messages
        (broker,) = admin.cluster().broker_addr_table.values()
        watch.lap()
        send_plainly(broker.broker_addrs[0], queues, chunks)
        watch.lap("SEND_BATCH_MESSAGE")


class Watch:
    """Measures laps: the time that passed, and what the broker's process ran in it."""

    def __init__(self, process_id: int, messages: int) -> None:
        self._process_id = process_id
        self._messages = messages
        self._began = self._now()

    def lap(self, what: str | None = None) -> tuple[float, float]:
        """End a lap, print it if it has a name, and return its seconds: of the clock, of the processor."""
        began, self._began = self._began, self._now()
        took = self._began[0] - began[0], self._began[1] - began[1]
        if what is not None:
            self.report(what, *took)
        return took

    def report(self, what: str, seconds: float, processor_s: float) -> None:
        """Print a figure."""
        each_s, each_processor_s = self._messages / seconds, self._messages / processor_s
        print(f"{what:20s} {each_s:12,.0f} messages/s {each_processor_s:12,.0f} messages/processor second")

    def _now(self) -> tuple[float, float]:
        return time.perf_counter(), usage_of(self._process_id).cpu_s


class Asking:
    """Another client, which asks for an offset again and again on a thread."""

    def __init__(self, name_server: str, queue: MessageQueue) -> None:
        self.slowest_s = 0.0
        self._name_server = name_server
        self._queue = queue
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> "Asking":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _ask(self) -> None:
        with PullConsumer("bench", self._name_server) as consumer:
            consumer.max_offset(self._queue)
            while not self._is_over.wait(0.005):
                begin = time.perf_counter()
                consumer.max_offset(self._queue)
                self.slowest_s = max(self.slowest_s, time.perf_counter() - begin)


def send_plainly(address: str, queues: list[MessageQueue], chunks: list[bytes]) -> None:
    """Send the chunks as ordinary batches, one after the other."""
    links = BlockingLinks(NetSettings())
    for number, chunk in enumerate(chunks):
        header = SendMessageV2(
            producer_group="bench",
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=QUEUES,
            queue_id=queues[number % QUEUES].queue_id,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            batch=True,
        )
        answer = links.request(address, request(RequestCode.SEND_BATCH_MESSAGE, header, chunk), 10.0)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    links.close()


if __name__ == "__main__":
    main()
