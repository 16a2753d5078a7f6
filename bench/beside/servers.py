"""The servers that are compared: started in folders of their own, one awake at a time, ended together."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.ports import free_broker_port
from harness.servers import apache_home, broker_file
from harness.toolchains import java_classpath, tool

from pyromq.bench.bench_run import TOPIC_QUEUES, BenchTarget
from pyromq.bench.exchanges import creation, exchange
from pyromq.bench.frames import OPAQUE_FIRST, Queue, answers, key_prefix, send_template
from pyromq.bench.process import usage_of
from pyromq.bench.slots import Templates
from pyromq.bench.workload import Workload
from pyromq.codes import RequestCode
from pyromq.net.address import split_address
from pyromq.testing.waiting import eventually
from pyromq.wire.command import Command
from pyromq.wire.header import write_header
from pyromq.wire.headers.offset_headers import GetMaxOffset

APACHE_4, APACHE_5, PYROMQ = "apache-4.9", "apache-5.5", "pyromq"
KINDS = (APACHE_4, APACHE_5, PYROMQ)
TITLES = {APACHE_4: "Apache 4.9", APACHE_5: "Apache 5.5", PYROMQ: "PyroMQ"}
CLASSPATHS = {APACHE_4: "server-4.9", APACHE_5: "server-5.5.0"}
ASYNC, SYNC = "ASYNC_FLUSH", "SYNC_FLUSH"
JVM = ["-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC"]
START_TIMEOUT_S = 60.0
#: One replica, no access control, defaults for all else.
SHARED: dict[str, Any] = {"mappedFileSizeCommitLog": 2**30, "mappedFileSizeConsumeQueue": 6_000_000}


@dataclass
class Broker:
    """A broker's process, and the name server that knows it."""

    kind: str
    process: "subprocess.Popen[bytes]"
    name_server: str
    address: str
    folder: Path
    output: Path
    topics: set[str] = field(default_factory=set)
    """Those that were created."""

    @property
    def pid(self) -> int:
        """Its process's id."""
        return self.process.pid

    @property
    def private_mib(self) -> float:
        """Its resident memory, without the files that it maps."""
        return round(usage_of(self.pid).private_bytes / 2**20, 1)

    def sleep(self) -> None:
        """Take its processor time away, so that whoever is measured has the machine alone."""
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it."""
        self.wake()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def awake(broker: Broker, others: Iterable[Broker]) -> Iterator[None]:
    """Have one broker run while the others stand still."""
    still = [other for other in others if other is not broker]
    for other in still:
        other.sleep()
    try:
        yield
    finally:
        for other in still:
            other.wake()


class Stage:
    """Starts servers in folders of their own and ends them all."""

    def __init__(self, folder: Path, closing: ExitStack) -> None:
        self._folder = folder
        self._closing = closing
        self.environment = apache_home(folder)
        self._started = 0
        self._name_servers: dict[str, str] = {}
        self._classpaths: dict[str, str] = {}

    def name_server(self, kind: str) -> str:
        """Return the address of this kind's name server, started when first asked for."""
        if kind not in self._name_servers:
            port = free_broker_port()
            settings = self._folder / f"namesrv-{kind}.conf"
            settings.write_text(f"listenPort={port}\n")
            ours = ["namesrv", "-p", str(port), "--data", str(self._folder / "namesrv")]
            command = (
                self._pyromq(*ours)
                if kind == PYROMQ
                else self._java(kind, "namesrv.NamesrvStartup", settings, ["-Xms128m", "-Xmx128m"])
            )
            process = self._spawn(command, self._folder / f"namesrv-{kind}.out")
            self._closing.callback(_end, process)
            eventually(lambda: _accepts(f"127.0.0.1:{port}"), START_TIMEOUT_S, what=f"{kind} name server")
            self._name_servers[kind] = f"127.0.0.1:{port}"
        return self._name_servers[kind]

    def broker(self, kind: str, flush: str) -> Broker:
        """Start a broker on an empty folder and do not wait for it."""
        name_server = self.name_server(kind)
        self._started += 1
        name, port = f"broker-{self._started}", free_broker_port()
        apache_only: dict[str, Any] = {"brokerIP2": "127.0.0.1", "haListenPort": port + 1}
        settings = broker_file(
            self._folder,
            name,
            port,
            namesrvAddr=name_server,
            # A cluster for each broker: a topic is created on one of them only.
            brokerClusterName=name,
            flushDiskType=flush,
            **SHARED,
            **({} if kind == PYROMQ else apache_only),
        )
        command = (
            self._pyromq("broker", "-c", str(settings), "-n", name_server)
            if kind == PYROMQ
            else self._java(kind, "broker.BrokerStartup", settings, JVM)
        )
        output = self._folder / f"{name}.out"
        process = self._spawn(command, output)
        return Broker(kind, process, name_server, f"127.0.0.1:{port}", self._folder / name, output)

    def _java(self, kind: str, main: str, settings: Path, flags: list[str]) -> list[str]:
        if kind not in self._classpaths:
            self._classpaths[kind] = java_classpath(CLASSPATHS[kind])
        logging = f"-Drmq.logback.configurationFile={self._folder / 'home/conf/logback_broker.xml'}"
        flags = [*flags, f"-Duser.home={self._folder}", logging, "-cp", self._classpaths[kind]]
        return [tool("java"), *flags, f"org.apache.rocketmq.{main}", "-c", str(settings)]

    def _pyromq(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "pyromq", *arguments]

    def _spawn(self, command: list[str], output: Path) -> "subprocess.Popen[bytes]":
        with output.open("wb") as out:
            return subprocess.Popen(
                command,
                cwd=self._folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def first_send(broker: Broker) -> None:
    """Try until the broker acknowledges a message."""
    host, _, port = broker.address.rpartition(":")
    row = send_template(Queue(broker.address, "", "first", 0), size=100, batch=1, prefix=key_prefix())
    templates = Templates([row], 0)
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if broker.process.poll() is not None:
            raise SystemExit(f"{broker.kind} broker ended:\n{broker.output.read_text()[-3000:]}")
        try:
            with socket.create_connection((host, int(port)), 1) as link:
                link.sendall(templates.write(OPAQUE_FIRST, 0, time.time_ns() // 1_000_000, is_stamped=False))
                found = [*answers(link.recv(65_536))]
            if found and found[0].code == 0:
                return
        except OSError:
            pass
        time.sleep(0.01)
    raise SystemExit(f"no acknowledged send on the {broker.kind} broker after {START_TIMEOUT_S:g} s")


def target_on(broker: Broker, workload: Workload) -> BenchTarget:
    """Return the queues of a workload's topic on this one broker, created there if it is the first time.

    Not by way of the name server: other brokers that it knows may be standing still.
    """
    queues = [Queue(broker.address, "", workload.topic, number) for number in range(TOPIC_QUEUES)]
    with socket.create_connection(split_address(broker.address), START_TIMEOUT_S) as link:
        if workload.topic not in broker.topics:
            exchange(link, [creation(workload.topic, TOPIC_QUEUES)])
            broker.topics.add(workload.topic)
        starts = dict.fromkeys(queues, 0)
        if workload.kind.is_followed:
            asked = [GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id) for queue in queues]
            ends = exchange(
                link, [Command(RequestCode.GET_MAX_OFFSET, ext=write_header(one)) for one in asked]
            )
            starts = {queue: int((end.ext or {})["offset"]) for queue, end in zip(queues, ends, strict=True)}
    return BenchTarget([queues], starts)


def forget_old_files(broker: Broker) -> None:
    """Have the system drop what it holds of the log's older files: nobody reads them again.

    Their memory is used again for the next file, so that no run pays for memory that was never used before.
    """
    for path in sorted((broker.folder / "store" / "commitlog").glob("0*"))[:-2]:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
