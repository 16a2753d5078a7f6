"""The only door to the file system.

The store opens, reads, writes, syncs, lists and removes files through a `Files`, and nothing else in this
package calls the operating system. Tests put a disk of their own behind it: one that forgets what was not
synced, tears a write, fills up or fails a sync.

Errors of the operating system become ours here: `DiskFull` when there is no room, `SyncFailed` when a sync
fails (what is on disk is then unknown), `StoreError` for everything else.

Files have their full length from the start but are sparse, so they take the room of what was written.
Writing goes through `pwrite`, where a full disk is an error and not a signal; reading goes through `pread` or
a map of the whole file, which always shows what was written before.
"""

import errno
import fcntl
import mmap
import os
import re
import resource
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from pyromq.errors import DiskFull, StoreError, StoreLocked, SyncFailed

#: No room on the disk, or for another open file: both may pass, and neither says that the disk is ill.
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})
_HELD: Final = frozenset({errno.EACCES, errno.EAGAIN})
#: type, whence, start, length, pid: one byte at the beginning, which is what RocketMQ locks.
_LOCK_FIRST_BYTE: Final = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
_LOCK_TEXT: Final = b"lock"
_WIPE_BYTES: Final = 1 << 20
_OPEN_FILES_MAX: Final = 16384
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class DiskUse:
    """The use of a disk, in bytes. `usable_bytes` are free for us, without the system's reserve."""

    used_bytes: int
    usable_bytes: int

    @property
    def ratio(self) -> float:
        """Used of what can be used, rounded up to a hundredth as RocketMQ does."""
        entire = self.used_bytes + self.usable_bytes
        return -(-self.used_bytes * 100 // entire) / 100 if entire else 1.0


class File(Protocol):
    """An open file."""

    def read(self, size: int, at: int) -> bytes:
        """Return up to `size` bytes from `at`; fewer at the end of the file."""
        ...

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        """Write all of `data` at `at`; after an error any part of it may be there."""
        ...

    def write_each(self, parts: Iterable[tuple[bytes, int]]) -> None:
        """Write several small parts, each at its place and each whole, in their order."""
        ...

    def sync(self) -> None:
        """Return when everything written is on the disk; may be called from another thread."""
        ...

    def resize(self, size: int) -> None:
        """Cut the file or extend it; what is added reads as zeros and takes no room."""
        ...

    def wipe(self, at: int) -> None:
        """Make everything from `at` on read as zeros; the file never has another length meanwhile."""
        ...

    def map(self) -> mmap.mmap:
        """Return a read-only map of the whole file; it is the caller's to close."""
        ...

    def close(self) -> None:
        """Give the file back; it can be closed twice."""
        ...


class FileLock(Protocol):
    """A lock that lives until it is released or the process ends."""

    def release(self) -> None:
        """Let others have it."""
        ...


class WholeDisk(Protocol):
    """A disk, looked at from before the first of the writes that are to be synced."""

    @property
    def is_reliable(self) -> bool:
        """Whether a sync of it tells of every write that failed since the beginning."""
        ...

    def sync(self) -> None:
        """Return when everything written to the disk is on it; may be called from another thread."""
        ...

    def close(self) -> None:
        """Give it back."""
        ...


class Files(Protocol):
    """A file system."""

    def open(self, path: Path, size: int) -> File:
        """Open a file for reading and writing, made or extended so that it has at least `size` bytes."""
        ...

    def names(self, folder: Path) -> list[str]:
        """List a folder, sorted; a folder that is not there is empty."""
        ...

    def exists(self, path: Path) -> bool:
        """Return whether the path is there."""
        ...

    def size(self, path: Path) -> int:
        """Return a file's length."""
        ...

    def make_folder(self, path: Path, *, is_synced: bool = True) -> None:
        """Make the folder and its parents where they are missing; synced ones survive a crash."""
        ...

    def sync_folder(self, path: Path) -> None:
        """Return when the names in a folder are on the disk; may be called from another thread."""
        ...

    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name in its folder, in one step; a file that had that name is gone."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is fine."""
        ...

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder; one that is not there, or not empty, is left as it is."""
        ...

    def read_all(self, path: Path) -> bytes | None:
        """Return a whole small file, or None when it is not there."""
        ...

    def lock(self, path: Path) -> FileLock:
        """Lock the file's first byte, which RocketMQ locks too; raise StoreLocked when another has it."""
        ...

    def disk_use(self, path: Path) -> DiskUse:
        """Return how full the disk is that holds the path."""
        ...

    def whole_disk(self, folder: Path) -> WholeDisk:
        """Return the disk that holds a folder."""
        ...

    def boot_id(self) -> str:
        """Return what is another after each start of the machine, or "" when that is not known."""
        ...

    def database(self, path: Path) -> Path | None:
        """Return where SQLite keeps a database that belongs at a path; None: in memory only."""
        ...


def _failed(action: str, path: Path, error: OSError) -> StoreError:
    kind = DiskFull if error.errno in _NO_ROOM else StoreError
    return kind(f"{action} {path} failed: {error.strerror or error}")


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except OSError as error:
        # A thousand busy queues need more files than a shell allows at first; Java raises that limit too.
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if error.errno != errno.EMFILE or soft == hard:
            raise
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return os.open(path, flags, 0o644)


class SystemFile:
    """A file of the machine."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self._fd = -1
        try:
            self._fd = _open(path)
            if os.fstat(self._fd).st_size < size:
                os.ftruncate(self._fd, size)
        except OSError as error:
            self.close()
            raise _failed("opening", path, error) from error

    def read(self, size: int, at: int) -> bytes:
        """Return up to `size` bytes from `at`."""
        try:
            return os.pread(self._fd, size, at)
        except OSError as error:
            raise _failed("reading", self.path, error) from error

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        """Write all of `data` at `at`."""
        try:
            written = os.pwrite(self._fd, data, at)
            while written < len(data):
                # A nearly full disk takes a part first; the next call then says why.
                written += os.pwrite(self._fd, memoryview(data)[written:], at + written)
        except OSError as error:
            raise _failed("writing", self.path, error) from error

    def write_each(self, parts: Iterable[tuple[bytes, int]]) -> None:
        """Write several small parts, each at its place."""
        fd = self._fd
        try:
            for data, at in parts:
                if os.pwrite(fd, data, at) < len(data):
                    self.write(data, at)
        except OSError as error:
            raise _failed("writing", self.path, error) from error

    def sync(self) -> None:
        """Return when everything written is on the disk."""
        try:
            os.fdatasync(self._fd)
        except (OSError, ValueError) as error:
            # ValueError: the file was closed, and has the descriptor −1.
            raise SyncFailed(f"syncing {self.path} failed: {error}") from error

    def resize(self, size: int) -> None:
        """Cut the file or extend it with zeros."""
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise _failed("resizing", self.path, error) from error

    def wipe(self, at: int) -> None:
        """Overwrite everything from `at` on with zeros; holes stay holes."""
        try:
            while True:
                at = os.lseek(self._fd, at, os.SEEK_DATA)
                data = os.pread(self._fd, min(os.lseek(self._fd, at, os.SEEK_HOLE) - at, _WIPE_BYTES), at)
                if data.count(0) < len(data):
                    self.write(bytes(len(data)), at)
                at += len(data)
        except OSError as error:
            # There are no more data.
            if error.errno != errno.ENXIO:
                raise _failed("wiping", self.path, error) from error

    def map(self) -> mmap.mmap:
        """Return a read-only map of the whole file."""
        try:
            return mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise _failed("mapping", self.path, error) from error

    def close(self) -> None:
        """Give the descriptor back."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class SystemLock:
    """A lock on the first byte of a file, held through an open descriptor."""

    __slots__ = ("_fd",)

    def __init__(self, path: Path) -> None:
        self._fd = _open(path)
        try:
            self._take()
            os.pwrite(self._fd, _LOCK_TEXT, 0)
            os.fsync(self._fd)
        except OSError as error:
            self.release()
            if error.errno in _HELD:
                raise StoreLocked(
                    f"another process has the store open: {path} is locked; stop it, or use another folder"
                ) from error
            raise _failed("locking", path, error) from error

    def _take(self) -> None:
        # A lock of the open file, not of the process: a second store in this process is refused too, and
        # closing another descriptor of the file does not lose it. It conflicts with Java's FileLock.
        if hasattr(fcntl, "F_OFD_SETLK"):
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _LOCK_FIRST_BYTE)
        else:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)

    def release(self) -> None:
        """Let others have it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class SystemDisk:
    """A file system of the machine, synced as a whole.

    The descriptor is open from the beginning: a write that fails later is told to those who were there.
    """

    __slots__ = ("_fd", "_folder")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _failed("opening the folder", folder, error) from error

    @property
    def is_reliable(self) -> bool:
        """Whether the system tells what it could not write: Linux does since 5.8."""
        return _find_syncfs() is not None

    def sync(self) -> None:
        """Return when everything written to the disk is on it."""
        # As in `_find_syncfs`.
        import ctypes

        syncfs = _find_syncfs()
        if syncfs is None or syncfs(self._fd):
            raise SyncFailed(f"syncing the disk of {self._folder} failed: {os.strerror(ctypes.get_errno())}")

    def close(self) -> None:
        """Give the descriptor back."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


@cache
def _find_syncfs() -> Callable[[int], int] | None:
    system = os.uname()
    version = re.match(r"(\d+)\.(\d+)", system.release)
    if system.sysname != "Linux" or version is None or (int(version[1]), int(version[2])) < (5, 8):
        return None
    # Only now: a broker with few queues never syncs a whole disk.
    import ctypes

    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def open_files_max() -> int:
    """Return how many files a store may keep open, of those that the process may have: others need some."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else max(min(hard // 4, _OPEN_FILES_MAX), 16)


class SystemFiles:
    """The machine's own file system."""

    def open(self, path: Path, size: int) -> File:
        """Open a file, made or extended to at least `size` bytes."""
        return SystemFile(path, size)

    def names(self, folder: Path) -> list[str]:
        """List a folder, sorted."""
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _failed("listing", folder, error) from error

    def exists(self, path: Path) -> bool:
        """Return whether the path is there."""
        return path.exists()

    def size(self, path: Path) -> int:
        """Return a file's length."""
        try:
            return path.stat().st_size
        except OSError as error:
            raise _failed("looking at", path, error) from error

    def make_folder(self, path: Path, *, is_synced: bool = True) -> None:
        """Make the folder and its parents, and sync the folders that got a new name."""
        missing = []
        while not path.is_dir():
            missing.append(path)
            path = path.parent
        for folder in reversed(missing):
            try:
                folder.mkdir(exist_ok=True)
            except OSError as error:
                raise _failed("making the folder", folder, error) from error
            if is_synced:
                self.sync_folder(folder.parent)

    def sync_folder(self, path: Path) -> None:
        """Return when the names in a folder are on the disk."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise SyncFailed(f"syncing the folder {path} failed: {error.strerror or error}") from error

    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name."""
        try:
            path.replace(to)
        except OSError as error:
            raise _failed("renaming", path, error) from error

    def remove(self, path: Path) -> None:
        """Remove a file."""
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _failed("removing", path, error) from error

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        try:
            path.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise _failed("removing the folder", path, error) from error

    def read_all(self, path: Path) -> bytes | None:
        """Return a whole small file, or None when it is not there."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failed("reading", path, error) from error

    def lock(self, path: Path) -> FileLock:
        """Lock the file's first byte."""
        try:
            return SystemLock(path)
        except OSError as error:
            raise _failed("locking", path, error) from error

    def disk_use(self, path: Path) -> DiskUse:
        """Return how full the disk is that holds the path."""
        try:
            use = os.statvfs(path)
        except OSError as error:
            raise _failed("looking at the disk of", path, error) from error
        return DiskUse(
            used_bytes=(use.f_blocks - use.f_bfree) * use.f_frsize,
            usable_bytes=use.f_bavail * use.f_frsize,
        )

    def whole_disk(self, folder: Path) -> WholeDisk:
        """Return the disk that holds a folder."""
        return SystemDisk(folder)

    def boot_id(self) -> str:
        """Return what the kernel drew when it started; a container has that of its host."""
        try:
            return _BOOT_ID.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return ""

    def database(self, path: Path) -> Path | None:
        """Return the path itself."""
        return path
