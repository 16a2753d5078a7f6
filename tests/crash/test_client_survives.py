"""`kill -9` of a broker under load: a synchronous producer and push consumers go on by themselves."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from client_faces import face_of
from forked_command import start_pyromq
from harness.ports import free_broker_port

from pyromq import Admin, ConsumeFrom, Message, PyroError, ReceivedMessage
from pyromq.testing.waiting import eventually

pytestmark = pytest.mark.timeout(400)

TOPIC, QUEUES = "orders", 4
KILLS = 3
#: Acknowledged messages between two kills.
LOAD = 150
#: As long as the machine may be busy with other things.
PATIENCE_S = 60.0


class Servers:
    """A name server, and a broker on a port and data of its own that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_broker_port()
        self._processes: dict[str, ForkServerProcess] = {}
        data = ["--data", str(folder / "namesrv-data")]
        self.name_server = self._start("namesrv", ["--port", "0", *data])["namesrv"]

    def start_broker(self) -> None:
        data = ["--data", str(self._folder / "broker-data")]
        self._start("broker", ["--port", str(self._port), "--namesrv", self.name_server, *data])

    def kill_broker(self) -> None:
        self._kill("broker")

    def close(self) -> None:
        for name in list(self._processes):
            self._kill(name)

    def _start(self, name: str, arguments: list[str]) -> dict[str, str]:
        ready, log = self._folder / f"{name}.ready", self._folder / f"{name}.log"
        ready.unlink(missing_ok=True)
        self._processes[name] = process = start_pyromq([name, *arguments, "--ready-file", str(ready)], log)

        def hello() -> dict[str, str] | None:
            assert process.is_alive(), log.read_text()
            return json.loads(ready.read_text()) if ready.exists() and ready.stat().st_size else None

        return eventually(hello, PATIENCE_S, what=f"the {name} is ready")

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(PATIENCE_S)


class Shop:
    """Sends numbered messages one after the other, whatever happens, and notes which were acknowledged."""

    def __init__(self, producer: Any) -> None:
        self.acknowledged: list[bytes] = []
        self.failures = 0
        self.sent = 0
        self._producer = producer
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sell, daemon=True)

    def __enter__(self) -> "Shop":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)

    def sell(self, count: int) -> None:
        """Wait until so many more were acknowledged."""
        enough = len(self.acknowledged) + count
        eventually(lambda: len(self.acknowledged) >= enough, PATIENCE_S, what=f"{enough} acknowledged")

    def _sell(self) -> None:
        # A pause of a millisecond leaves some of the machine to the others.
        while not self._is_over.wait(0.001):
            self.sent += 1
            body = b"%d" % self.sent
            try:
                self._producer.send(Message(TOPIC, body))
            except PyroError:
                self.failures += 1
            else:
                self.acknowledged.append(body)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    servers = Servers(tmp_path)
    try:
        servers.start_broker()
        with Admin(servers.name_server) as admin:
            eventually(lambda: made(admin), PATIENCE_S, what=f"{TOPIC} is made")
        yield servers
    finally:
        servers.close()


def made(admin: Admin) -> bool:
    try:
        admin.create_topic(TOPIC, QUEUES)
        return bool(admin.route(TOPIC).queue_datas)
    except PyroError:
        return False


@pytest.mark.row("SM-01", "OF-08", "CO-02", "OR-03", "ST-02")
@pytest.mark.parametrize(("kind", "order"), [("blocking", "concurrent"), ("asyncio", "orderly")])
def test_what_was_acknowledged_is_consumed_although_the_broker_was_killed(
    servers: Servers, kind: str, order: str
) -> None:
    got: list[ReceivedMessage] = []
    with face_of(kind) as face:
        consumer = face.PushConsumer(
            "billing",
            servers.name_server,
            listener=lambda message: got.append(message),
            order=order,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        )
        consumer.subscribe(TOPIC)
        with consumer, face.Producer("shop", servers.name_server) as producer, Shop(producer) as shop:
            shop.sell(LOAD)
            for _ in range(KILLS):
                servers.kill_broker()
                servers.start_broker()
                shop.sell(LOAD)
            shop.end()
            eventually(lambda: {one.body for one in list(got)} >= set(shop.acknowledged), PATIENCE_S)

    assert shop.failures + len(shop.acknowledged) == shop.sent
    if order == "orderly":
        for queue_id in range(QUEUES):
            offsets = [one.queue_offset for one in got if one.queue.queue_id == queue_id]
            firsts = list(dict.fromkeys(offsets))
            assert firsts == list(range(len(firsts)))
