"""The servers that are compared: started in folders of their own, one awake at a time, ended together."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.ports import free_broker_port
from harness.servers import OPEN_BUFFERS, apache_home, broker_file
from harness.toolchains import java_classpath, tool

from beside.figures import APACHE_4, APACHE_5, ECHO, PYROMQ, TITLES
from beside.quiet import say
from beside.setups import (
    ACCOUNT,
    OPERATOR,
    PLAIN,
    Setup,
    make_certificate,
    write_accounts,
)
from pyromq.bench.bench_run import BenchTarget
from pyromq.bench.exchanges import creation, exchange
from pyromq.bench.frames import Queue, key_prefix, send_command
from pyromq.bench.process import usage_of
from pyromq.bench.workload import Workload
from pyromq.client.signing import signer
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import PyroError, Refused, TopicNotFound
from pyromq.net.address import split_address
from pyromq.testing.waiting import eventually
from pyromq.wire.command import Command
from pyromq.wire.header import write_header
from pyromq.wire.headers.offset_headers import GetMaxOffset
from pyromq.wire.signature import Sign

__all__ = ["APACHE_4", "APACHE_5", "ECHO", "PYROMQ", "TITLES", "Broker", "Stage"]

CLASSPATHS = {APACHE_4: "server-4.9", APACHE_5: "server-5.5.0"}
ECHO_SOURCE = Path(__file__).resolve().parents[1] / "echo" / "echo.c"
JVM = ["-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC"]
START_TIMEOUT_S = 60.0
#: Created with one write to a connection.
TOPICS_TOGETHER = 500
#: What a message is answered with that is stored, but not as safe as it should be.
UNSAFE = (
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)
#: The topic of first sends: one that every broker makes by itself.
FIRST = "first"
#: Defaults for all else, but for what a setup says.
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
    setup: Setup = PLAIN
    slave: "Broker | None" = None
    topics: set[str] = field(default_factory=set)
    """Those that were created."""
    is_to_be_verified: bool = False
    """Whether its store is looked through when it has ended, before it is removed."""

    @property
    def operator(self) -> Sign | None:
        """What signs requests that only an administrator may make."""
        return signer(OPERATOR) if self.setup.is_guarded else None

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
        for process in self._processes:
            process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on."""
        for process in self._processes:
            process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it, and its slave, and remove what they stored: the next brokers need the room."""
        self.wake()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for one in (self, self.slave):
            if one is not None:
                if one.is_to_be_verified:
                    verify_store(one.folder / "store")
                shutil.rmtree(one.folder / "store", ignore_errors=True)

    @property
    def _processes(self) -> "list[subprocess.Popen[bytes]]":
        return [self.process] if self.slave is None else [self.process, self.slave.process]


def verify_store(store: Path) -> None:
    """Look through a store of ours; end the bench when something is wrong with it."""
    command = [sys.executable, "-m", "pyromq", "store", "verify", str(store)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(
            f"{store} is not whole after the load:\n{ended.stdout[-3000:]}{ended.stderr[-1000:]}"
        )
    say(f"verified: {' '.join(ended.stdout.split()[:24])}")


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

    def __init__(self, folder: Path, closing: ExitStack, *, verifies: bool = False) -> None:
        self._folder = folder
        self._verifies = verifies
        self._closing = closing
        self.environment = apache_home(folder) | OPEN_BUFFERS
        _write_bytecode(self.environment, folder / "bytecode")
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

    def broker(self, kind: str, setup: Setup = PLAIN) -> Broker:
        """Start a broker on an empty folder, with its slave if it is to have one, and do not wait for it."""
        self._started += 1
        name = f"broker-{self._started}"
        if kind == ECHO:
            return self._echo(name)
        master = self._start(kind, setup, name, 0)
        if setup.has_slave:
            # A slave that is there before its master asks for it again only after a while.
            first_send(master, is_safe=False)
            master.slave = self._start(kind, setup, name, 1)
        return master

    def _start(self, kind: str, setup: Setup, name: str, number: int) -> Broker:
        name_server, port = self.name_server(kind), free_broker_port()
        own = name if number == 0 else f"{name}-slave"
        given = {
            "namesrvAddr": name_server,
            # A cluster for each broker: a topic is created on one of them only.
            "brokerClusterName": name,
            "brokerName": name,
            "brokerId": number,
            **SHARED,
            **setup.settings,
            **({"brokerRole": "SLAVE"} if number else {}),
            **({"haListenPort": port + 1} if kind != PYROMQ or setup.has_slave else {}),
            **({} if kind == PYROMQ else {"brokerIP2": "127.0.0.1"}),
        }
        flags: list[str] = []
        if setup.is_guarded:
            accounts = write_accounts(self._folder / "home" / "conf")
            given |= {"aclFolder": accounts} if kind == PYROMQ else {}
        if setup.is_encrypted:
            certificate, key = make_certificate(self._folder)
            given |= {"tlsServerCertPath": certificate, "tlsServerKeyPath": key} if kind == PYROMQ else {}
            flags = [
                "-Dtls.test.mode.enable=false",
                f"-Dtls.server.certPath={certificate}",
                f"-Dtls.server.keyPath={key}",
            ]
        settings = broker_file(self._folder, own, port, **given)
        command = (
            self._pyromq("broker", "-c", str(settings), "-n", name_server)
            if kind == PYROMQ
            else self._java(kind, "broker.BrokerStartup", settings, [*JVM, *flags])
        )
        output = self._folder / f"{own}.out"
        process = self._spawn(command, output)
        broker = Broker(kind, process, name_server, f"127.0.0.1:{port}", self._folder / own, output, setup)
        broker.is_to_be_verified = self._verifies and kind == PYROMQ
        return broker

    def _echo(self, name: str) -> Broker:
        program, folder, port = self._folder / "echo", self._folder / name, free_broker_port()
        if not program.exists():
            compiler = ["cc", "-O2", "-o", str(program), str(ECHO_SOURCE)]
            subprocess.run(compiler, check=True, capture_output=True)
        folder.mkdir()
        output = self._folder / f"{name}.out"
        process = self._spawn([str(program), str(port), str(folder)], output)
        return Broker(ECHO, process, "", f"127.0.0.1:{port}", folder, output)

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


def _write_bytecode(environment: dict[str, str], folder: Path) -> None:
    """Have our servers find their modules compiled, as pip leaves them where it installs."""
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(folder)
    command = [sys.executable, "-c", "import pyromq.cli.servers.broker_servers, pyromq.cli.program"]
    subprocess.run(command, env=environment, check=True)


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


def first_send(broker: Broker, *, is_safe: bool = True) -> None:
    """Try until the broker acknowledges a message; `is_safe`: and says that it is as safe as it should be."""
    deadline, sign = time.monotonic() + START_TIMEOUT_S, None
    if broker.setup.is_guarded:
        sign = signer(ACCOUNT)
    refused: Refused | None = None
    while time.monotonic() < deadline:
        if broker.process.poll() is not None:
            raise SystemExit(f"{broker.kind} broker ended:\n{broker.output.read_text()[-3000:]}")
        command = send_command(Queue(broker.address, "", FIRST, 0), size=100, batch=1, prefix=key_prefix())
        (command.ext or {})["g"] = str(time.time_ns() // 1_000_000)
        with suppress(OSError):
            refused = _refusal_of(broker, command, sign)
            # The message is stored also when no slave has it yet.
            if not refused or (not is_safe and refused.code in UNSAFE):
                return
        time.sleep(0.01)
    said = f" ({refused})" if refused else ""
    raise SystemExit(f"no acknowledged send on the {broker.kind} broker after {START_TIMEOUT_S:g} s{said}")


def _refusal_of(broker: Broker, command: Command, sign: Sign | None) -> Refused | None:
    """Make a request on a connection of its own; return why it was refused, None when it was not."""
    try:
        with socket.create_connection(split_address(broker.address), 1) as link:
            link.settimeout(5)
            exchange(link, [command], sign)
    except Refused as error:
        return error
    except PyroError as error:
        raise ConnectionResetError(str(error)) from error
    return None


def wait_until_whole(broker: Broker) -> None:
    """Wait until a broker's slave has all that it has; without a slave, not at all."""
    slave = broker.slave
    if slave is None:
        return
    first_send(broker)
    topics = [FIRST, *broker.topics]

    def is_whole() -> bool:
        try:
            return all(end_of(slave, topic) >= end_of(broker, topic) for topic in topics)
        except (OSError, PyroError):
            return False

    eventually(is_whole, START_TIMEOUT_S, what=f"the {broker.kind} slave has all")


def wait_until_copied(broker: Broker, topic: str) -> float:
    """Wait until a broker's slave has a topic's messages; return how many seconds that took, 0 if it had."""
    assert broker.slave is not None
    slave, wanted, began_at = broker.slave, end_of(broker, topic), time.monotonic()
    if end_of(slave, topic) >= wanted:
        return 0.0
    eventually(
        lambda: end_of(slave, topic) >= wanted, START_TIMEOUT_S, what=f"the {broker.kind} slave has all"
    )
    return round(time.monotonic() - began_at, 4)


def end_of(broker: Broker, topic: str, queues: int = 8) -> int:
    """Return how many messages a topic has ever had on a broker; 0 if it has no such topic."""
    asked = [
        Command(RequestCode.GET_MAX_OFFSET, ext=write_header(GetMaxOffset(topic=topic, queue_id=number)))
        for number in range(1 if topic == FIRST else queues)
    ]
    with socket.create_connection(split_address(broker.address), START_TIMEOUT_S) as link:
        try:
            ends = exchange(link, asked, broker.operator)
        except TopicNotFound:
            return 0
    return sum(max(int((end.ext or {})["offset"]), 0) for end in ends)


def target_on(broker: Broker, workload: Workload) -> BenchTarget:
    """Return the queues of a workload's topic on this one broker, created there if it is the first time.

    Not by way of the name server: other brokers that it knows may be standing still.
    """
    queues = [Queue(broker.address, "", workload.topic, number) for number in range(workload.queues)]
    with socket.create_connection(split_address(broker.address), START_TIMEOUT_S) as link:
        if workload.topic not in broker.topics:
            exchange(link, [creation(workload.topic, workload.queues)], broker.operator)
            broker.topics.add(workload.topic)
        starts = dict.fromkeys(queues, 0)
        if workload.kind.is_followed:
            asked = [GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id) for queue in queues]
            ends = exchange(
                link, [Command(RequestCode.GET_MAX_OFFSET, ext=write_header(one)) for one in asked]
            )
            starts = {queue: int((end.ext or {})["offset"]) for queue, end in zip(queues, ends, strict=True)}
    return BenchTarget([queues], starts)


def queues_on(broker: Broker, prefix: str, count: int, of_topic: int) -> list[Queue]:
    """Return so many queues, spread over topics that are created where they are missing."""
    names = [f"{prefix}-{number}" for number in range(-(-count // of_topic))]
    missing = [name for name in names if name not in broker.topics]
    with socket.create_connection(split_address(broker.address), START_TIMEOUT_S) as link:
        for at in range(0, len(missing), TOPICS_TOGETHER):
            some = missing[at : at + TOPICS_TOGETHER]
            exchange(link, [creation(name, of_topic) for name in some], broker.operator)
            broker.topics.update(some)
    queues = [Queue(broker.address, "", name, number) for number in range(of_topic) for name in names]
    return queues[:count]


def forget_old_files(broker: Broker) -> None:
    """Have the system drop what it holds of the log's older files: nobody reads them again.

    Their memory is used again for the next file, so that no run pays for memory that was never used before.
    """
    folders = [one.folder / "store" / "commitlog" for one in (broker, broker.slave) if one is not None]
    for path in [path for folder in folders for path in sorted(folder.glob("0*"))[:-2]]:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
