"""`pyromq store backup` beside a broker that is at work, and a broker that is started on the copy."""

import json
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pyromq import Message, MessageQueue, Producer, PullConsumer, PullStatus, PyroError
from pyromq.testing.waiting import eventually
from pyromq.wire import java_json

Up = Callable[..., Any]
GROUP = "billing"
SMALL = ("--set", "mappedFileSizeCommitLog=262144", "--set", "maxMessageSize=65536")
DEADLINE_S = 60


class Load:
    """Somebody who sends, and somebody who reads and commits, until the block ends."""

    def __init__(self, name_server: str) -> None:
        self._name_server = name_server
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._read)]
        #: What was acknowledged so far, by queue id and offset.
        self.acknowledged: dict[tuple[int, int], bytes] = {}

    def __enter__(self) -> "Load":
        with Producer("clerks", self._name_server) as producer:
            producer.send(Message("orders", b"first"))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(DEADLINE_S)

    def more(self, count: int) -> None:
        """Wait until so many more are acknowledged."""
        wanted = len(self.acknowledged) + count
        eventually(lambda: len(self.acknowledged) >= wanted, DEADLINE_S, what="more is sent")

    def _send(self) -> None:
        with Producer("clerks", self._name_server) as producer:
            number = 0
            while not self._is_over.is_set():
                body = b"%d" % number + bytes(500)
                number += 1
                # What a busy machine answers too late is not acknowledged.
                with suppress(PyroError):
                    result = producer.send(Message("orders", body, keys=[str(number)]))
                    self.acknowledged[result.queue.queue_id, result.queue_offset] = body

    def _read(self) -> None:
        with PullConsumer(GROUP, self._name_server) as consumer:
            offsets: dict[MessageQueue, int] = dict.fromkeys(consumer.queues("orders"), 0)
            while not self._is_over.is_set():
                for queue, offset in offsets.items():
                    with suppress(PyroError):
                        offsets[queue] = consumer.pull(queue, offset).next_offset
                        consumer.commit(queue, offsets[queue])


def has_saved_progress(store: str) -> bool:
    """Whether the broker saved that the group has passed a message; its first table may have zeros only."""
    try:
        table = java_json.loads((Path(store) / "config" / "consumerOffset.json").read_bytes())["offsetTable"]
    except FileNotFoundError:
        return False
    return any(table.get(f"orders@{GROUP}", {}).values())


def stored(name_server: str) -> dict[tuple[int, int], bytes]:
    found: dict[tuple[int, int], bytes] = {}
    with PullConsumer("auditors", name_server) as consumer:
        for queue in consumer.queues("orders"):
            offset = consumer.min_offset(queue)
            while (pulled := consumer.pull(queue, offset)).status is PullStatus.FOUND:
                found |= {(queue.queue_id, one.queue_offset): one.body for one in pulled.messages}
                offset = pulled.next_offset
    return found


@pytest.fixture
def restored(shell: Any, tmp_path: Path) -> Callable[[Path], str]:
    """Start a broker on a copy of a backup, as after a lost disk, and return its name server."""

    def start(backup: Path) -> str:
        shutil.copytree(backup, tmp_path / "restored" / "broker-a")
        address: str = shell.up(tmp_path / "restored", *SMALL).ready()["namesrv"]
        return address

    return start


def test_a_broker_on_a_backup_has_all_that_was_acknowledged_before_it_began(
    shell: Any, up: Up, tmp_path: Path, restored: Callable[[Path], str]
) -> None:
    ready, backup = up(*SMALL).ready(), tmp_path / "backup"

    with Load(ready["namesrv"]) as load:
        load.more(200)
        shell.output_of("store", "backup", ready["data"], str(backup))
        load.more(300)
        # Progress is saved every five seconds.
        eventually(lambda: has_saved_progress(ready["data"]), DEADLINE_S, what="progress is saved")
        acknowledged = dict(load.acknowledged)
        shell.output_of("store", "backup", ready["data"], str(backup))
        load.more(50)
    there = stored(ready["namesrv"])

    assert "everything is whole" in shell.output_of("store", "verify", str(backup))
    address = restored(backup)
    kept = stored(address)
    assert acknowledged.items() <= kept.items() <= there.items()
    with PullConsumer(GROUP, address) as reader:
        queues = reader.queues("orders")
        progress = {queue: reader.committed(queue) or 0 for queue in queues}
        assert any(progress.values())
        assert [queue for queue in queues if progress[queue] > reader.max_offset(queue)] == []
    shell.output_of("produce", "-n", address, "orders", "one more")


def test_what_waits_for_its_time_waits_in_the_backup_too(
    shell: Any, up: Up, tmp_path: Path, restored: Callable[[Path], str]
) -> None:
    ready, backup = up(*SMALL).ready(), tmp_path / "backup"
    shell.output_of("produce", "-n", ready["namesrv"], "later", "in an hour", "--delay", "1h")

    done = json.loads(shell.output_of("store", "backup", ready["data"], str(backup), "--json"))

    assert (done["event"], done["is_first"], done["copied_bytes"]) == ("backed_up", True, done["end"])
    assert "later" in shell.output_of("delayed", "list", "-n", restored(backup))


@pytest.mark.parametrize("target", ["data/broker-a/inside", "data/inside", "."])
def test_a_folder_that_is_not_for_the_backup_has_the_status_two(
    shell: Any, tmp_path: Path, target: str
) -> None:
    (tmp_path / "data" / "broker-a" / "commitlog").mkdir(parents=True)

    ended = shell.run("store", "backup", str(tmp_path / "data"), str(tmp_path / target))

    assert ended.returncode == 2
    assert "must not be inside of one another" in ended.stderr
