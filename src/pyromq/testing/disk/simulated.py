"""The disk itself: files in memory behind the store's door, each change written down.

A file's bytes are in a piece of anonymous memory that has a descriptor (`memfd_create`, Linux), so that a map
of it is a real map. Every change also goes into the journal, and what the journal says is on the platter is
what a power cut leaves.
"""

import errno
import itertools
import mmap
import os
import random
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pyromq.errors import DiskFull, StoreError, StoreLocked, SyncFailed
from pyromq.store.files import DiskUse, File, FileLock
from pyromq.testing.disk.cuts import TearsAt, kept_operations, tears_anywhere
from pyromq.testing.disk.journal import (
    ROOT,
    DiskNode,
    Image,
    LostSync,
    Mark,
    Naming,
    Operation,
    Platter,
    Resize,
    Sync,
    Write,
)

PAGE_BYTES: Final = 4096
_NO_LIMIT: Final = 1 << 50
_boots: Final = itertools.count(1)


class _Content:
    """A file's bytes. They get a descriptor when somebody opens the file."""

    __slots__ = ("_fd", "_initial", "names", "node", "pages", "users")

    def __init__(self, node: DiskNode, initial: bytes = b"") -> None:
        self.node = node
        self._initial = initial
        self._fd = -1
        self.names = 1
        self.users = 0
        #: The pages that take room; the others are holes.
        self.pages = {
            at // PAGE_BYTES
            for at in range(0, len(initial), PAGE_BYTES)
            if initial.count(0, at, at + PAGE_BYTES) < min(PAGE_BYTES, len(initial) - at)
        }

    @property
    def fd(self) -> int:
        if self._fd < 0:
            self._fd = os.memfd_create("pyromq")
            os.ftruncate(self._fd, len(self._initial))
            os.pwrite(self._fd, self._initial, 0)
        return self._fd

    @property
    def size(self) -> int:
        return len(self._initial) if self._fd < 0 else os.fstat(self._fd).st_size

    @property
    def data(self) -> bytes:
        return self._initial if self._fd < 0 else os.pread(self._fd, self.size, 0)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


class SimulatedFile:
    """An open file of a simulated disk."""

    __slots__ = ("_content", "_disk", "_is_closed", "path")

    def __init__(self, disk: "SimulatedDisk", path: Path, content: _Content) -> None:
        self.path = path
        self._disk = disk
        self._content = content
        self._is_closed = False
        content.users += 1
        disk.note_open(self)

    def read(self, size: int, at: int) -> bytes:
        """Return up to `size` bytes from `at`."""
        return os.pread(self._open_fd("reading"), size, at)

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        """Write all of `data` at `at`; on a full disk a part of it."""
        self._open_fd("writing")
        self._disk.write(self.path, self._content, bytes(data), at)

    def write_each(self, parts: Iterable[tuple[bytes, int]]) -> None:
        """Write several small parts, each at its place."""
        for data, at in parts:
            self.write(data, at)

    def sync(self) -> None:
        """Bring everything written to the platter."""
        if self._is_closed:
            raise SyncFailed(f"syncing {self.path} failed: it is closed")
        self._disk.sync(self.path, self._content.node)

    def resize(self, size: int) -> None:
        """Cut the file or extend it with zeros."""
        self._open_fd("resizing")
        self._disk.resize(self._content, size)

    def wipe(self, at: int) -> None:
        """Overwrite everything from `at` on with zeros."""
        data = self.read(self._content.size - at, at)
        if any(data):
            self.write(bytes(len(data)), at)

    def map(self) -> mmap.mmap:
        """Return a read-only map of the whole file."""
        return mmap.mmap(self._open_fd("mapping"), 0, access=mmap.ACCESS_READ)

    def close(self) -> None:
        """Give the file back."""
        if not self._is_closed:
            self._is_closed = True
            self._disk.note_closed(self, self._content)

    def _open_fd(self, action: str) -> int:
        if self._is_closed:
            raise StoreError(f"{action} {self.path} failed: {os.strerror(errno.EBADF)}")
        return self._content.fd


class SimulatedLock:
    """The lock of a path, until it is released."""

    __slots__ = ("_held", "_path")

    def __init__(self, held: set[Path], path: Path) -> None:
        self._held = held
        self._path = path
        held.add(path)

    def release(self) -> None:
        """Let others have it."""
        self._held.discard(self._path)


class SimulatedDisk:
    """A file system in memory that can be made to fail, and remembers what was done to it.

    `image` is what it holds at first, all of it synced. Files may be used from several threads. Each disk is
    another boot of its machine, unless it is given a `boot_id`.
    """

    def __init__(
        self,
        image: Image | None = None,
        *,
        capacity_bytes: int = _NO_LIMIT,
        boot_id: str | None = None,
        keeps_journal: bool = True,
    ) -> None:
        self._keeps_journal = keeps_journal
        self._boot_id = f"boot {next(_boots):031d}" if boot_id is None else boot_id
        #: How much the disk holds; may be changed at any time.
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        #: Everything that was done since the beginning, in order.
        self.journal: list[Operation] = []
        self.platter = Platter()
        self._mutex = threading.RLock()
        self._folders: dict[Path, DiskNode] = {Path("/"): ROOT}
        self._files: dict[Path, _Content] = {}
        self._names: dict[Path, set[str]] = {}
        self._locked: set[Path] = set()
        self._open: set[SimulatedFile] = set()
        self._nodes = 0
        self._failing_syncs: list[str] = []
        self._failing_writes: list[str] = []
        for path, data in (image or {}).items():
            self._plant(path, data)
        #: The platter as it was at the beginning, for `cuts_of`.
        self.base = self.platter.copy()

    def _plant(self, path: Path, data: bytes | None) -> None:
        if data is None:
            node = self._folders[path] = self._new_node(path, is_folder=True)
            self.platter.folders[node] = {}
        else:
            node = self._new_node(path)
            content = self._files[path] = _Content(node, data)
            self.used_bytes += len(content.pages) * PAGE_BYTES
            self.platter.contents[node] = data
        self.platter.folders[self._folders[path.parent]][path.name] = node
        self._names.setdefault(path.parent, set()).add(path.name)

    def _new_node(self, path: Path, *, is_folder: bool = False) -> DiskNode:
        self._nodes += 1
        return DiskNode(self._nodes, is_folder, str(path))

    # What the test asks for

    def mark(self, value: object) -> None:
        """Put a note into the journal."""
        with self._mutex:
            self.journal.append(Mark(value))

    @property
    def open_count(self) -> int:
        """The number of open files."""
        return len(self._open)

    def image(self) -> Image:
        """Return all files as they read now."""
        with self._mutex:
            folders: Image = dict.fromkeys((path for path in self._folders if path.name), None)
            return folders | {path: content.data for path, content in self._files.items()}

    def after_kill(self) -> "SimulatedDisk":
        """Return the disk that the next process finds when this one is killed: nothing is lost."""
        return SimulatedDisk(self.image(), capacity_bytes=self.capacity_bytes, boot_id=self._boot_id)

    def after_power_cut(self, chance: random.Random, tears_at: TearsAt = tears_anywhere) -> "SimulatedDisk":
        """Return a disk that a power cut now might leave."""
        return SimulatedDisk(self.power_cut_image(chance, tears_at), capacity_bytes=self.capacity_bytes)

    def power_cut_image(self, chance: random.Random, tears_at: TearsAt = tears_anywhere) -> Image:
        """Return the files that a power cut now might leave."""
        with self._mutex:
            return self.platter.image(kept_operations(self.platter.pending, chance, tears_at).changes)

    def kill_processes(self) -> None:
        """Take all locks and open files away, as when the processes that had them are killed.

        The machine and the disk go on, with everything that was written.
        """
        with self._mutex:
            self._locked.clear()
            for file in tuple(self._open):
                file.close()

    def fail_syncs(self, count: int = 1, *, under: str = "") -> None:
        """Let the next syncs of paths that contain `under` fail; what they should have written is lost."""
        self._failing_syncs += [under] * count

    def fail_writes(self, count: int = 1, *, under: str = "") -> None:
        """Let the next writes to paths that contain `under` fail, with nothing written."""
        self._failing_writes += [under] * count

    def mend(self) -> None:
        """Let nothing fail from now on."""
        self._failing_syncs.clear()
        self._failing_writes.clear()

    def flip_bit(self, path: Path, bit: int) -> None:
        """Change one bit of a file, as a bad disk does: nobody is told."""
        data = bytearray(self._files[path].data)
        data[bit // 8] ^= 1 << bit % 8
        self._damage(path, bytes(data))

    def cut_file(self, path: Path, size: int) -> None:
        """Shorten a file behind everybody's back."""
        self._damage(path, self._files[path].data[:size])

    def _damage(self, path: Path, data: bytes) -> None:
        with self._mutex:
            content = self._files[path]
            os.ftruncate(content.fd, len(data))
            os.pwrite(content.fd, data, 0)
            self.platter.apply(Resize(content.node, 0))
            self.platter.apply(Write(content.node, 0, data))
            self.platter.apply(Sync(content.node))

    def copy_to(self, folder: Path) -> None:
        """Write all files to a real folder."""
        for path, data in sorted(self.image().items()):
            target = folder / path.relative_to("/")
            if data is None:
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)

    # What files do

    def write(self, path: Path, content: _Content, data: bytes, at: int) -> None:
        """Write to a file, as much of it as there is room for."""
        with self._mutex:
            if _takes(self._failing_writes, path):
                raise StoreError(f"writing {path} failed: {os.strerror(errno.EIO)}")
            fits = self._take_room(content, at, len(data))
            if fits:
                os.pwrite(content.fd, data[:fits], at)
                self._do(Write(content.node, at, data[:fits]))
            if fits < len(data):
                raise DiskFull(f"writing {path} failed: {os.strerror(errno.ENOSPC)}")

    def _take_room(self, content: _Content, at: int, size: int) -> int:
        """Allocate the pages of a write, one by one; return how many of its bytes have a page."""
        for page in range(at // PAGE_BYTES, -(-(at + size) // PAGE_BYTES)):
            if page in content.pages:
                continue
            if self.used_bytes + PAGE_BYTES > self.capacity_bytes:
                return max(page * PAGE_BYTES - at, 0)
            content.pages.add(page)
            self.used_bytes += PAGE_BYTES
        return size

    def resize(self, content: _Content, size: int) -> None:
        """Change a file's length."""
        with self._mutex:
            os.ftruncate(content.fd, size)
            kept = {page for page in content.pages if page * PAGE_BYTES < size}
            self.used_bytes -= (len(content.pages) - len(kept)) * PAGE_BYTES
            content.pages = kept
            self._do(Resize(content.node, size))

    def sync(self, path: Path, node: DiskNode) -> None:
        """Bring a node's changes to the platter, or fail and lose them."""
        with self._mutex:
            if _takes(self._failing_syncs, path):
                self._do(LostSync(node))
                raise SyncFailed(f"syncing {path} failed: {os.strerror(errno.EIO)}")
            self._do(Sync(node))

    def note_open(self, file: SimulatedFile) -> None:
        """Remember who has a file open."""
        self._open.add(file)

    def note_closed(self, file: SimulatedFile, content: _Content) -> None:
        """Forget an open file, and give its room back when it has neither a name nor a user."""
        with self._mutex:
            self._open.discard(file)
            content.users -= 1
            self._drop_if_unused(content)

    def _drop_if_unused(self, content: _Content) -> None:
        with self._mutex:
            if not content.names and not content.users:
                self.used_bytes -= len(content.pages) * PAGE_BYTES
                content.pages = set()

    def _do(self, operation: Operation) -> None:
        if self._keeps_journal:
            self.journal.append(operation)
        self.platter.apply(operation)

    def _name(self, *changes: tuple[Path, DiskNode | None]) -> None:
        self._do(Naming(tuple((self._folders[path.parent], path.name, node) for path, node in changes)))
        for path, node in changes:
            names = self._names.setdefault(path.parent, set())
            names.discard(path.name) if node is None else names.add(path.name)

    # The door (pyromq.store.files.Files)

    def open(self, path: Path, size: int) -> File:
        """Open a file, made or extended to at least `size` bytes."""
        with self._mutex:
            content = self._files.get(path)
            if content is None:
                if path.parent not in self._folders or path in self._folders:
                    raise StoreError(f"opening {path} failed: {os.strerror(errno.ENOENT)}")
                content = self._files[path] = _Content(self._new_node(path))
                self._name((path, content.node))
            if content.size < size:
                self.resize(content, size)
            return SimulatedFile(self, path, content)

    def names(self, folder: Path) -> list[str]:
        """List a folder, sorted."""
        with self._mutex:
            return sorted(self._names.get(folder, ()))

    def exists(self, path: Path) -> bool:
        """Return whether the path is there."""
        return path in self._files or path in self._folders

    def size(self, path: Path) -> int:
        """Return a file's length."""
        content = self._files.get(path)
        if content is None:
            raise StoreError(f"looking at {path} failed: {os.strerror(errno.ENOENT)}")
        return content.size

    def make_folder(self, path: Path, *, is_synced: bool = True) -> None:
        """Make the folder and its parents, and sync the folders that got a new name."""
        with self._mutex:
            if path in self._folders:
                return
            self.make_folder(path.parent, is_synced=is_synced)
            node = self._folders[path] = self._new_node(path, is_folder=True)
            self._name((path, node))
            if is_synced:
                self.sync_folder(path.parent)

    def sync_folder(self, path: Path) -> None:
        """Bring the names in a folder to the platter."""
        node = self._folders.get(path)
        if node is None:
            raise SyncFailed(f"syncing the folder {path} failed: {os.strerror(errno.ENOENT)}")
        self.sync(path, node)

    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name, in one step."""
        with self._mutex:
            content = self._files.pop(path, None)
            if content is None or to.parent not in self._folders:
                raise StoreError(f"renaming {path} failed: {os.strerror(errno.ENOENT)}")
            self._forget(self._files.get(to))
            self._files[to] = content
            self._name((to, content.node), (path, None))

    def remove(self, path: Path) -> None:
        """Remove a file; who has it open can go on reading it."""
        with self._mutex:
            content = self._files.pop(path, None)
            if content is not None:
                self._name((path, None))
                self._forget(content)

    def _forget(self, content: _Content | None) -> None:
        if content is not None:
            content.names = 0
            self._drop_if_unused(content)

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        with self._mutex:
            if path in self._folders and not self.names(path):
                self._name((path, None))
                del self._folders[path]

    def read_all(self, path: Path) -> bytes | None:
        """Return a whole file, or None when it is not there."""
        content = self._files.get(path)
        return None if content is None else content.data

    def lock(self, path: Path) -> FileLock:
        """Lock a file."""
        with self._mutex:
            if path in self._locked:
                raise StoreLocked(f"another store has {path} locked")
            file = self.open(path, 0)
            file.write(b"lock", 0)
            file.sync()
            file.close()
            return SimulatedLock(self._locked, path)

    def disk_use(self, path: Path) -> DiskUse:
        """Return how full the disk is."""
        return DiskUse(self.used_bytes, max(self.capacity_bytes - self.used_bytes, 0))

    def whole_disk(self, folder: Path) -> "SimulatedWhole":
        """Return all of the disk."""
        return SimulatedWhole(self)

    def sync_all(self) -> None:
        """Bring every change to the platter; one sync that fails is none of the others' concern."""
        with self._mutex:
            nodes = {path: content.node for path, content in self._files.items()} | self._folders
            failed = [path for path, node in nodes.items() if not self._has_synced(path, node)]
        if failed:
            raise SyncFailed(f"syncing the disk failed: {failed[0]}: {os.strerror(errno.EIO)}")

    def _has_synced(self, path: Path, node: DiskNode) -> bool:
        try:
            self.sync(path, node)
        except SyncFailed:
            return False
        return True

    def boot_id(self) -> str:
        """Return the same before and after a kill, and another after a power cut."""
        return self._boot_id

    def database(self, path: Path) -> Path | None:
        """Say that databases are in memory only."""
        return None


class SimulatedWhole:
    """A simulated disk, synced as a whole."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk

    @property
    def is_reliable(self) -> bool:
        """Whether a sync tells of every write that failed."""
        return True

    def sync(self) -> None:
        """Bring every change to the platter."""
        self._disk.sync_all()

    def close(self) -> None:
        """Give it back."""


def _takes(failing: list[str], path: Path) -> bool:
    """Return whether an operation on a path is to fail, and count it."""
    for under in failing:
        if under in str(path):
            failing.remove(under)
            return True
    return False
