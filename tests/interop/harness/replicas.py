"""A group of brokers with one name, a master and its slaves, each of them ours or Apache's 4.9."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.observer import Observer
from harness.ports import free_broker_port
from harness.processes import Server
from harness.servers import (
    OPEN_BUFFERS,
    PYROMQ,
    START_TIMEOUT_S,
    apache_home,
    broker_file,
    start_java,
    start_pyromq,
)
from harness.toolchains import java_classpath
from pyromq.testing.waiting import eventually

OURS, APACHE = "ours", "apache"
BROKER = "broker-a"
#: Small, so that a few hundred messages fill several.
LOG_FILE_BYTES = 1 << 20
#: The first level is over within a test.
DELAY_LEVELS = "1s 1h"

SETTINGS: dict[str, str | int] = {
    "brokerName": BROKER,
    "bindAddress": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "mappedFileSizeCommitLog": LOG_FILE_BYTES,
    "maxMessageSize": LOG_FILE_BYTES // 4,
    "messageDelayLevel": DELAY_LEVELS,
    "flushConsumerOffsetInterval": 300,
    "flushDelayOffsetInterval": 300,
    # A busy machine is no reason to refuse a send that waited for 200 ms.
    "waitTimeMillsInSendQueue": START_TIMEOUT_S * 1000,
}


def start_name_server(kind: str, folder: Path, closing: ExitStack) -> str:
    """Start a name server of either kind and return its address."""
    folder.mkdir()
    if kind == OURS:
        data = str(folder / "data")
        return start_pyromq(folder, closing, "namesrv", "namesrv", "-p", "0", "--data", data)["namesrv"]
    port = free_broker_port()
    settings = folder / "namesrv.conf"
    settings.write_text(f"listenPort={port}\nbindAddress=127.0.0.1\n")
    classpath = java_classpath("server-4.9")
    server = start_java(classpath, "namesrv.NamesrvStartup", settings, "namesrv", folder, apache_home(folder))
    closing.callback(server.kill)
    server.wait_for_text("boot success", START_TIMEOUT_S)
    return f"127.0.0.1:{port}"


class Replica:
    """One broker of the group, on a port and in a folder of its own, as often as it is started.

    Without an id its role is decided elsewhere (`failover` among its settings).
    """

    def __init__(
        self, kind: str, folder: Path, name_server: str, broker_id: int | None, **settings: str | int
    ) -> None:
        self.kind = kind
        self._port = free_broker_port()
        self.address = f"127.0.0.1:{self._port}"
        folder.mkdir()
        self._folder = folder
        self._name = kind if broker_id is None else f"{kind}-{broker_id}"
        self.root = folder / self._name / "store"
        self.become(broker_id, name_server, **settings)
        self._server: Server | None = None

    def become(self, broker_id: int | None, name_server: str, **settings: str | int) -> None:
        """Have another role, or another name server, from the next start on."""
        self.broker_id, self._name_server = broker_id, name_server
        given = SETTINGS | {
            "namesrvAddr": name_server,
            "brokerId": broker_id or 0,
            "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
            "haListenPort": self._port + 1,
            **settings,
        }
        self._settings = broker_file(self._folder, self._name, self._port, **given)

    def start(self) -> None:
        """Start it, and return when the name server has it in its role, if that is fixed."""
        ready_file = self._folder / f"{self._name}.ready"
        if self.kind == OURS:
            ready_file.unlink(missing_ok=True)
            command = [*PYROMQ, "broker", "-c", str(self._settings), "--ready-file", str(ready_file)]
            self._server = Server(command, folder=self._folder, name=self._name)
            self._server.wait_for_file(ready_file, START_TIMEOUT_S)
        else:
            classpath = java_classpath("server-4.9")
            home = apache_home(self._folder) | OPEN_BUFFERS
            self._server = start_java(
                classpath, "broker.BrokerStartup", self._settings, self._name, self._folder, home
            )
            self._server.wait_for_text("boot success", START_TIMEOUT_S)
        if self.broker_id is None:
            return
        observer = Observer(self._name_server)
        eventually(
            lambda: observer.replicas(BROKER).get(self.broker_id) == self.address,
            START_TIMEOUT_S,
            what=f"{self._name} is registered",
        )

    @property
    def server(self) -> Server:
        """Its process, which must have been started."""
        assert self._server is not None
        return self._server

    def kill(self) -> None:
        """End it at once; twice does no harm."""
        if self._server is not None:
            self._server.kill()

    def log(self) -> "Log":
        """Return what its log holds now."""
        return Log.read(self.root / "commitlog")


@dataclass(frozen=True)
class Log:
    """The bytes of a log from where it begins to where its last record ends."""

    start: int
    data: bytes

    @classmethod
    def read(cls, folder: Path) -> "Log":
        """Read the files; those that a broker made ahead are empty."""
        files = sorted(path for path in folder.glob("*") if path.name.isdigit()) if folder.exists() else []
        if not files:
            return cls(0, b"")
        data = b"".join(path.read_bytes() for path in files)
        start = int(files[0].name)
        return cls(start, data[: _end_of_records(data)])

    @property
    def end(self) -> int:
        """The position behind the last byte."""
        return self.start + len(self.data)

    @property
    def files(self) -> int:
        """How many files have records."""
        return -(-self.end // LOG_FILE_BYTES) - self.start // LOG_FILE_BYTES

    def behind(self, position: int) -> bytes:
        """Return the bytes from a position on."""
        return self.data[position - self.start :]


def _end_of_records(data: bytes) -> int:
    end = 0
    for at, size in _sizes(data):
        end = at + size
    return end


def _sizes(data: bytes) -> Iterator[tuple[int, int]]:
    # Each record, and the blank that ends a file, begins with its size.
    at = 0
    while at + 4 <= len(data) and (size := int.from_bytes(data[at : at + 4])):
        yield at, size
        at += size
