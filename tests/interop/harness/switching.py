"""A group of our brokers that elects its master by etcd, and clients that live through a change."""

import base64
import json
import os
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import httpx

from harness.observer import Observer
from harness.ports import free_broker_port
from harness.processes import Server
from harness.program import Program
from harness.replicas import BROKER, OURS, Replica, start_name_server
from harness.servers import START_TIMEOUT_S
from harness.toolchains import java_class
from pyromq import ConsumeFrom, Message, MessageQueue, Producer, PushConsumer, ReceivedMessage, SendStatus
from pyromq.config.settings import ClientSettings
from pyromq.errors import PyroError
from pyromq.testing.waiting import eventually

PATIENCE_S = 60
#: So that no sender takes the machine from the others.
PAUSE_S = 0.005
#: Java's consumers in order look for their locks, and share queues, more often than every 20 s.
JAVA = (
    "-Drocketmq.client.rebalance.waitInterval=1000",
    "-Drocketmq.client.rebalance.lockInterval=500",
)


class Sent(NamedTuple):
    """An acknowledged message: its text, where it is, who acknowledged it, and when, in microseconds."""

    body: str
    queue: int
    offset: int
    port: int
    at: int


class Read(NamedTuple):
    """A message that a consumer got."""

    queue: int
    offset: int
    body: str


def _etcd() -> str:
    """Return the path of etcd: the machine's, or the one that the tests of failover fetch."""
    support = str(Path(__file__).parents[2] / "support")
    if support not in sys.path:
        sys.path.insert(0, support)
    from etcd import program

    return str(program())


def start_etcd(folder: Path, closing: ExitStack) -> str:
    """Start a single etcd and return its address for clients."""
    port = free_broker_port()
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"
    command = [_etcd(), "--data-dir", str(folder / "etcd"), "--name", "one"]
    command += ["--listen-client-urls", client, "--advertise-client-urls", client]
    command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
    command += ["--initial-cluster", f"one={peer}"]
    server = Server(command, folder=folder, name="etcd")
    closing.callback(server.kill)
    eventually(lambda: _is_healthy(client), START_TIMEOUT_S, what="etcd is up")
    return f"127.0.0.1:{port}"


def _is_healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").json()["health"] == "true"
    except (httpx.HTTPError, ValueError):
        return False


class SwitchingGroup:
    """Replicas of one name that are equals: who is master is decided at etcd."""

    def __init__(
        self, folder: Path, closing: ExitStack, *, name_server: str, replicas: int = 2, **settings: str | int
    ) -> None:
        self.etcd = start_etcd(folder, closing)
        self.name_server = start_name_server(name_server, folder / "names", closing)
        self._observer = Observer(self.name_server)
        given = {"failover": f"etcd://{self.etcd}", "brokerRole": "SYNC_MASTER", **settings}
        self.replicas = [
            Replica(OURS, folder / f"replica-{number}", self.name_server, None, **given)
            for number in range(replicas)
        ]
        for replica in self.replicas:
            closing.callback(replica.kill)

    def start(self) -> None:
        """Start all of them, and return when one is master and the others follow."""
        for replica in self.replicas:
            replica.start()
        self.wait_until_whole()

    def wait_until_whole(self) -> None:
        """Wait until every replica is registered, and in sync with its master."""
        count = len(self.replicas)
        eventually(lambda: len(self._ids()) == count and 0 in self._ids(), PATIENCE_S, what="all registered")
        eventually(lambda: len(self.in_sync()) == count, PATIENCE_S, what="all in sync")

    def in_sync(self) -> list[str]:
        """Return the members of the in-sync set, as etcd has it."""
        found = self.state().get("inSync", [])
        return list(found)

    def state(self) -> dict[str, list[str]]:
        """Return what etcd says of the group."""
        key = f"/pyromq/DefaultCluster/{BROKER}/state"
        return _value(f"http://{self.etcd}", key)

    def master(self) -> Replica:
        """Return the replica that the name server has as master."""
        address = self._ids().get(0)
        return next(replica for replica in self.replicas if replica.address == address)

    def wait_for_another(self, than: Replica) -> Replica:
        """Wait until another replica is master, and return it."""
        eventually(
            lambda: (address := self._ids().get(0)) and address != than.address,
            PATIENCE_S,
            what="another replica is master",
        )
        return self.master()

    def _ids(self) -> dict[int, str]:
        return self._observer.replicas(BROKER)


def _value(url: str, key: str) -> dict[str, list[str]]:
    asked = {"key": base64.b64encode(key.encode()).decode()}
    found = httpx.post(f"{url}/v3/kv/range", json=asked).json().get("kvs")
    return json.loads(base64.b64decode(found[0]["value"])) if found else {}


class JavaClients:
    """A Java producer and a Java consumer in order, in a process of their own."""

    name = "java"

    def __init__(self, program: Program) -> None:
        self._program = program
        self._seen = 0
        self._sent: list[Sent] = []
        self._read: list[Read] = []

    @classmethod
    def start(cls, folder: Path, name_server: str, *, poll_ms: int = 1_000) -> "JavaClients":
        """Start the process; it asks the name server so often, where Java's default is every 30 s."""
        folder.mkdir()
        command = java_class("Switched", "4.9.8", [f"-Duser.home={folder}", *JAVA])
        env = {**os.environ, "HOME": str(folder)}
        return cls(Program([*command, name_server, str(poll_ms)], folder=folder, env=env))

    def produce(self, topic: str, queues: int) -> None:
        """Begin to send."""
        self._program.do("produce", "java_producer", topic, queues, int(PAUSE_S * 1000))

    def consume(self, topic: str) -> None:
        """Begin to read."""
        self._program.do("join", "java_consumer", topic)

    def rest(self) -> None:
        """Send no more; what was begun is finished."""
        self._program.do("rest")

    @property
    def sent(self) -> list[Sent]:
        """What was acknowledged, in order."""
        self._look()
        return self._sent

    @property
    def read(self) -> list[Read]:
        """What was consumed, in order."""
        self._look()
        return self._read

    def _look(self) -> None:
        news = self._program.events[self._seen :]
        self._seen += len(news)
        for one in news:
            if one["event"] == "sent":
                body, port = f"java-{one['number']}", port_of(one["offset_id"])
                self._sent.append(Sent(body, one["queue"], one["offset"], port, one["at"]))
            elif one["event"] == "consumed":
                self._read.append(Read(one["queue"], one["offset"], one["body"]))

    def close(self) -> None:
        """End the process."""
        self._program.close()


class PythonClients:
    """A producer and a consumer in order of ours, with the defaults of ClientSettings."""

    name = "python"

    def __init__(self, name_server: str, settings: ClientSettings | None = None) -> None:
        self.sent: list[Sent] = []
        self.read: list[Read] = []
        self.faults: list[str] = []
        self._name_server = name_server
        self._settings = settings
        self._is_over = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._consumer: PushConsumer | None = None

    def produce(self, topic: str, queues: int) -> None:
        """Begin to send."""
        self._thread = threading.Thread(target=self._send, args=(topic, queues), daemon=True)
        self._thread.start()

    def _send(self, topic: str, queues: int) -> None:
        with Producer("python_producer", self._name_server, self._settings) as producer:
            number = 0
            while not self._is_over.wait(PAUSE_S):
                self._send_one(producer, f"python-{number}", MessageQueue(topic, BROKER, number % queues))
                number += 1

    def _send_one(self, producer: Producer, body: str, queue: MessageQueue) -> None:
        while not self._is_closed:
            try:
                result = producer.send(Message(queue.topic, body.encode()), queue=queue)
            except PyroError as error:
                self.faults.append(str(error))
            else:
                if result.status is SendStatus.SEND_OK:
                    port = port_of(result.offset_message_id)
                    self.sent.append(Sent(body, queue.queue_id, result.queue_offset, port, micros()))
                    return
                self.faults.append(str(result.status))
            self._is_over.wait(0.02)

    def consume(self, topic: str) -> None:
        """Begin to read."""
        self._consumer = PushConsumer(
            "python_consumer",
            self._name_server,
            listener=self._read,
            order="orderly",
            consume_from=ConsumeFrom.FIRST_OFFSET,
        )
        self._consumer.subscribe(topic)
        self._consumer.start()

    def _read(self, message: ReceivedMessage) -> None:
        self.read.append(Read(message.queue.queue_id, message.queue_offset, message.body.decode()))

    def rest(self) -> None:
        """Send no more; what was begun is finished."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)

    def close(self) -> None:
        """End both, whether or not the last message was acknowledged."""
        self._is_closed = True
        self.rest()
        if self._consumer is not None:
            self._consumer.close()


def port_of(offset_id: str) -> int:
    """Return the port of the broker that gave a message its place, which its id names."""
    return int(offset_id[8:16], 16)


def micros() -> int:
    """Return the time as Java's clients tell it."""
    return time.time_ns() // 1_000
