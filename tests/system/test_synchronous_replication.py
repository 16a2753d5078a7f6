"""What waiting for a slave costs, by what goes over the wire; bench/replication.py has the time."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typed_page import TypedPage, typed_page

from pyromq.testing.waiting import eventually

SENDERS, MESSAGES = 64, 6_400
POSITION_BYTES = 8
DEADLINE_S = 60

pytestmark = pytest.mark.timeout(900)


class CountingRelay:
    """Passes a slave's connection on to its master, and counts what the slave says."""

    def __init__(self, port: int) -> None:
        self.bytes_said = 0
        self._master = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> "CountingRelay":
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(DEADLINE_S)
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                slave = self._listener.accept()[0]
                master = socket.create_connection(self._master)
                self._sockets += [slave, master]
                for source, target in ((slave, master), (master, slave)):
                    thread = threading.Thread(target=self._pass_on, args=(source, target, source is slave))
                    self._threads.append(thread)
                    thread.start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self.bytes_said += len(data) if counts else 0
                target.sendall(data)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[TypedPage]:
    with typed_page(tmp_path, (9876, 10911, 10921)) as page:
        yield page


def is_safe(page: TypedPage) -> bool:
    """Whether a message is acknowledged by master and slave."""
    return "SEND_OK" in page.type("pyromq produce -n 127.0.0.1:9876 first one")


@pytest.mark.row("HA-05")
def test_senders_at_one_time_share_a_slave_s_acknowledgement(page: TypedPage) -> None:
    page.type(
        "pyromq namesrv -p 9876 --data names --ready-file names.json > names.log 2>&1 & echo $! > names.pid\n"
        "until [ -e names.json ]; do sleep 0.1; done\n"
        "pyromq broker -n 127.0.0.1:9876 --port 10911 --data master --set brokerRole=SYNC_MASTER"
        # A slave that stands still for a moment is waited for.
        " --set slaveTimeout=60000 --ready-file master.json > master.log 2>&1 & echo $! > master.pid\n"
        "until [ -e master.json ]; do sleep 0.1; done"
    )
    with CountingRelay(page.port(10911) + 1) as relay:
        page.type(
            "pyromq broker -n 127.0.0.1:9876 --port 10921 --data slave"
            f" --set brokerRole=SLAVE --set brokerId=1 --set haMasterAddress=127.0.0.1:{relay.port}"
            " --ready-file slave.json > slave.log 2>&1 & echo $! > slave.pid"
        )
        eventually(lambda: is_safe(page), DEADLINE_S, what="the slave follows")
        before = relay.bytes_said
        sent = page.type(
            f"pyromq bench produce -n 127.0.0.1:9876 --topic shared --connections {SENDERS}"
            f" --under-way 4 --count {MESSAGES} --json"
        )
        said = (relay.bytes_said - before) // POSITION_BYTES

    report = json.loads(sent)
    assert report["refused"] == {}
    assert report["messages_in_all"] == MESSAGES
    assert said < MESSAGES / 4, "one acknowledgement answers many senders"
