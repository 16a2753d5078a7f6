"""A door to the file system through which nothing can be changed.

Files are opened for reading only and read by `pread`. They are not mapped: a broker may cut a file that is
being looked at, and the page behind the cut would end the process that reads it from a map. No lock is taken;
whether somebody else has one is asked.
"""

import errno
import fcntl
import os
import struct
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pyromq.errors import StoreError

#: type, whence, start, length, pid: would a lock of the first byte, which RocketMQ locks too, be granted?
_FLOCK: Final = struct.Struct("hhqqi4x")
_ASK_FIRST_BYTE: Final = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
_CHUNK_BYTES: Final = 1 << 16
#: The unit of `st_blocks`, whatever the file system.
_BLOCK_BYTES: Final = 512


class FileGone(StoreError):
    """A file that was listed is not there any more: retention, or a topic was removed."""


class ReadOnlyFile:
    """An open file that can only be read."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileGone(f"{path} is not there any more") from error
        except OSError as error:
            raise _failed("opening", path, error) from error

    @property
    def size(self) -> int:
        """The file's length now."""
        return os.fstat(self._fd).st_size

    @property
    def stamp(self) -> tuple[int, int]:
        """The file's length, and when it was changed last, in nanoseconds since 1970."""
        found = os.fstat(self._fd)
        return found.st_size, found.st_mtime_ns

    @property
    def room(self) -> int:
        """The number of bytes that the file takes on the disk, without its holes."""
        return os.fstat(self._fd).st_blocks * _BLOCK_BYTES

    def read(self, size: int, at: int) -> bytes:
        """Return up to `size` bytes from `at`; fewer at the end of the file."""
        try:
            data = os.pread(self._fd, size, at)
            while (
                data and len(data) < size and (more := os.pread(self._fd, size - len(data), at + len(data)))
            ):
                data += more
        except OSError as error:
            raise _failed("reading", self.path, error) from error
        return data

    def last_byte_but_zeros(self, before: int) -> int:
        """Return the end of the last byte before `before` that is not zero; 0 when all are zeros."""
        for start, end in reversed(self.written_parts(before)):
            while end > start:
                at = max(start, end - _CHUNK_BYTES)
                if kept := self.read(end - at, at).rstrip(b"\0"):
                    return at + len(kept)
                end = at
        return 0

    def has_bytes(self, start: int, end: int) -> bool:
        """Return whether anything but zeros stands between two places."""
        return self.last_byte_but_zeros(end) > start

    def written_parts(self, before: int) -> list[tuple[int, int]]:
        """Return the parts that take room on the disk; what lies between them reads as zeros."""
        parts = []
        at = 0
        try:
            while at < before:
                start = os.lseek(self._fd, at, os.SEEK_DATA)
                at = os.lseek(self._fd, start, os.SEEK_HOLE)
                parts.append((min(start, before), min(at, before)))
        except OSError as error:
            # Nothing but a hole is left.
            if error.errno != errno.ENXIO:
                raise _failed("reading", self.path, error) from error
        return parts

    def close(self) -> None:
        """Give the descriptor back."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def names_in(folder: Path) -> list[str]:
    """List a folder, sorted; a folder that is not there is empty."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _failed("listing", folder, error) from error


def read_whole(path: Path) -> bytes | None:
    """Return a small file's content, or None when it is not there."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise _failed("reading", path, error) from error


def is_locked(path: Path) -> bool:
    """Return whether a process has the store open: it holds a lock on the file's first byte."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        # Nobody ever locked it, or we may not know.
        return False
    try:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, _ASK_FIRST_BYTE)
    except OSError:
        return False
    finally:
        os.close(fd)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def _failed(action: str, path: Path, error: OSError) -> StoreError:
    return StoreError(f"{action} {path} failed: {error.strerror or error}")
