"""A store in a folder of its own: small files, a clock that is moved, a disk that fails when told."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pyromq.config.settings import StoreSettings
from pyromq.errors import StoreError
from pyromq.store.files import DiskUse, File, SystemFile, SystemFiles
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.record import Record, encode_host, iter_records

HOST = encode_host("127.0.0.1", 10911)
NOON_MS = 1_700_049_600_000


class FailingFile(SystemFile):
    """A file that fails as its disk is told to."""

    def __init__(self, disk: "FailingFiles", path: Path, size: int) -> None:
        super().__init__(path, size)
        self._disk = disk

    def write(self, data: bytes | bytearray, at: int) -> None:
        self._disk.check_write(self.path)
        super().write(data, at)

    def write_each(self, parts: Iterable[tuple[bytes, int]]) -> None:
        self._disk.check_write(self.path)
        super().write_each(parts)

    def sync(self) -> None:
        if self._disk.sync_error is not None:
            raise self._disk.sync_error
        # Nobody pulls the plug of a unit test: what a sync would cost is saved.
        self._disk.synced.append(self.path)


class FailingFiles(SystemFiles):
    """The machine's files, until `write_error` or `sync_error` is set; `use` is how full the disk is."""

    def __init__(self) -> None:
        self.write_error: StoreError | None = None
        self.failing_folder = ""
        self.sync_error: StoreError | None = None
        self.use = DiskUse(used_bytes=10, usable_bytes=90)
        self.synced: list[Path] = []
        self.boot = "boot"

    def open(self, path: Path, size: int) -> File:
        return FailingFile(self, path, size)

    def sync_folder(self, path: Path) -> None:
        pass

    def disk_use(self, path: Path) -> DiskUse:
        return self.use

    def boot_id(self) -> str:
        return self.boot

    def check_write(self, path: Path) -> None:
        if self.write_error is not None and self.failing_folder in str(path):
            raise self.write_error


class StoreBox:
    """Opens stores on one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock(NOON_MS)
        self.disk = FailingFiles()
        self.settings = StoreSettings(
            store_path_root_dir=str(root),
            mapped_file_size_commit_log=8192,
            mapped_file_size_consume_queue=400,
            max_hash_slot_num=50,
            max_index_num=200,
        )
        self._open: list[MessageStore] = []

    def store(self, **changes: object) -> MessageStore:
        """Return a store that is not open yet."""
        store = MessageStore(
            replace(self.settings, **changes),  # type: ignore[arg-type]
            clock=self.clock,
            files=self.disk,
        )
        self._open.append(store)
        return store

    def open(self, **changes: object) -> MessageStore:
        """Return an open store."""
        store = self.store(**changes)
        store.open()
        return store

    def after_kill(self) -> "StoreBox":
        """Return a box on a copy of the files as they are, which is what a killed process leaves."""
        copy = self.root.with_name(self.root.name + "-killed")
        shutil.copytree(self.root, copy)
        box = StoreBox(copy)
        box.clock = self.clock
        self._open.append(box)  # type: ignore[arg-type]
        return box

    def close(self) -> None:
        """Close every store that was opened here."""
        for store in self._open:
            store.close()


def make_draft(
    topic: str = "orders",
    queue_id: int = 0,
    body: bytes = b"hello",
    properties: str = "",
    sys_flag: int = 0,
) -> Draft:
    """Return a message with the usual hosts."""
    return Draft(topic, queue_id, body, properties, 0, sys_flag, NOON_MS - 5, HOST, HOST)


def read_all(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> list[Record]:
    """Return all messages of a queue, checksums checked."""
    records: list[Record] = []
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        got = store.get(topic, queue_id, offset, count_max=32)
        assert got.next_offset > offset, got
        records += iter_records(got.body)
        offset = got.next_offset
    return records


@pytest.fixture
def box(tmp_path: Path) -> Iterator[StoreBox]:
    """Stores on one folder."""
    stores = StoreBox(tmp_path / "store")
    yield stores
    stores.close()


@pytest.fixture
def draft() -> Callable[..., Draft]:
    """Make a message."""
    return make_draft


@pytest.fixture
def all_of() -> Callable[..., list[Record]]:
    """Read a whole queue."""
    return read_all


def last_file(folder: Path) -> Path:
    """Return the newest file of a folder."""
    return sorted(folder.iterdir())[-1]
