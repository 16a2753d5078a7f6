"""The machine's files, but every operation is noted, syncs wait or fail, and the disk is as full as told."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pyromq.errors import DiskFull, StoreError, SyncFailed
from pyromq.store.files import DiskUse, File, SystemFile, SystemFiles


class Operation(NamedTuple):
    """What was done to a file: open, write, sync, rename, remove; or to a folder: sync folder."""

    kind: str
    path: Path


class _StagedFile(SystemFile):
    def __init__(self, stage: "StagedFiles", path: Path, size: int) -> None:
        super().__init__(path, size)
        self._stage = stage

    def write(self, data: bytes | bytearray, at: int) -> None:
        full_name = self._stage.full_name
        # Whoever sees the note may be sure that what was set before it held.
        self._stage.note("write", self.path)
        if full_name is not None and self.path.name.startswith(full_name):
            raise DiskFull(f"writing {self.path} failed: No space left on device")
        if self._stage.broken_name is not None and self.path.name.startswith(self._stage.broken_name):
            raise RuntimeError(f"writing {self.path} is not understood")
        if self.path.parent.name == "commitlog":
            self._stage.before_log_write()
        super().write(data, at)

    def write_each(self, parts: Iterable[tuple[bytes, int]]) -> None:
        self._stage.note("write", self.path)
        super().write_each(parts)

    def sync(self) -> None:
        self._stage.begin_sync(self.path)
        super().sync()


class StagedFiles(SystemFiles):
    """Files that tests can look at, slow down and break. `percent_used` is how full the disk is."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.percent_used = 10
        self.disk_looks = 0
        self.remove_error: str | None = None
        self.sync_error: str | None = None
        #: Files whose names begin so have no room.
        self.full_name: str | None = None
        #: Writing files whose names begin so fails in a way that nobody thought of.
        self.broken_name: str | None = None
        #: Called before each write to the log; a slow disk lets time pass.
        self.before_log_write: Callable[[], None] = lambda: None
        self._may_sync = threading.Event()
        self._may_sync.set()
        self._may_remove = threading.Event()
        self._may_remove.set()

    def note(self, kind: str, path: Path) -> None:
        """Remember an operation."""
        self.operations.append(Operation(kind, path))

    def begin_sync(self, path: Path) -> None:
        """Let a sync of the log wait, or fail, as the test has it."""
        self.note("sync", path)
        if path.parent.name == "commitlog":
            self._may_sync.wait()
            if self.sync_error is not None:
                raise SyncFailed(f"syncing {path} failed: {self.sync_error}")

    @contextmanager
    def held_syncs(self) -> Iterator[None]:
        """Let no sync of the log end before the block does."""
        self._may_sync.clear()
        try:
            yield
        finally:
            self._may_sync.set()

    def let_syncs_go(self) -> None:
        """End what `held_syncs` began; any thread may."""
        self._may_sync.set()

    @contextmanager
    def held_removals(self) -> Iterator[None]:
        """Let no file be removed before the block ends."""
        self._may_remove.clear()
        try:
            yield
        finally:
            self._may_remove.set()

    def of(self, name: str) -> list[str]:
        """Return what was done to the files whose folder or own name begins so."""
        return [
            f"{kind} {path.name}"
            for kind, path in self.operations
            if path.name.startswith(name) or path.parent.name == name
        ]

    @property
    def log_syncs(self) -> int:
        """How often a file of the log was synced, or begun to be."""
        return sum(kind == "sync" and path.parent.name == "commitlog" for kind, path in self.operations)

    def open(self, path: Path, size: int) -> File:
        """Open a file."""
        self.note("open", path)
        return _StagedFile(self, path, size)

    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name."""
        super().rename(path, to)
        self.note(f"rename {path.name} to", to)

    def sync_folder(self, path: Path) -> None:
        """Sync the names in a folder."""
        self.note("sync folder", path)
        super().sync_folder(path)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        error = self.remove_error
        self.note("remove", path)
        self._may_remove.wait()
        if error is not None:
            raise StoreError(f"removing {path} failed: {error}")
        super().remove(path)

    def disk_use(self, path: Path) -> DiskUse:
        """Return how full the disk is said to be."""
        self.disk_looks += 1
        return DiskUse(used_bytes=self.percent_used, usable_bytes=100 - self.percent_used)
