"""A folder for an archive: on a local disk, or wherever Arrow has a file system for (s3://, gs://, hdfs://).

`create` is what commits stand on: a file appears whole or not at all, and only if there was none. A local
disk promises both; an object store the first, and the second as far as nobody writes in the same instant.
"""

import os
import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from pyromq.errors import ConfigError, PyroError

#: What a file is called while it is being written.
_UNFINISHED: Final = ".unfinished"


class FolderTaken(PyroError):
    """A file of that name is there already: somebody else was faster."""


@dataclass(frozen=True, slots=True)
class ArchiveFolder:
    """A folder by its path or its URI; small enough to be sent to executors."""

    uri: str

    def _open(self) -> tuple[fs.FileSystem, str]:
        try:
            if "://" in self.uri:
                system, path = fs.FileSystem.from_uri(self.uri)
            else:
                system, path = fs.LocalFileSystem(), str(Path(self.uri).expanduser().absolute())
        except (pa.ArrowInvalid, OSError) as error:
            raise ConfigError(
                f"{self.uri!r} is no folder that can be used: {error}; give a path, or a URI such as s3://bucket/orders"
            ) from error
        return system, path

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine's own disks."""
        return isinstance(self._open()[0], fs.LocalFileSystem)

    def names(self, part: str) -> list[str]:
        """Return the names of the finished files right below a part of the folder, sorted."""
        system, path = self._open()
        selector = fs.FileSelector(posixpath.join(path, part), allow_not_found=True)
        found = (one.base_name for one in system.get_file_info(selector) if one.type is fs.FileType.File)
        return sorted(name for name in found if not name.startswith("."))

    def size(self, name: str) -> int | None:
        """Return how many bytes a file has, or None when it is not there."""
        system, path = self._open()
        found = system.get_file_info(posixpath.join(path, name))
        return found.size if found.type is fs.FileType.File else None

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        system, path = self._open()
        with system.open_input_stream(posixpath.join(path, name)) as stream:
            return bytes(stream.read())

    def open_input(self, name: str) -> pa.NativeFile:
        """Open a file to be read at any place."""
        system, path = self._open()
        return system.open_input_file(posixpath.join(path, name))

    def open_output(self, name: str) -> pa.NativeFile:
        """Open a new file; it means nothing before the manifest names it."""
        system, path = self._open()
        whole = posixpath.join(path, name)
        system.create_dir(posixpath.dirname(whole), recursive=True)
        return system.open_output_stream(whole)

    def keep(self, name: str) -> None:
        """Make a file that was written survive a power cut, and the folders that lead to it."""
        if not self.is_local:
            return
        path = Path(self._open()[1])
        whole = path / name
        _sync(whole)
        for parent in whole.parents:
            _sync(parent)
            if parent == path:
                break

    def create(self, name: str, content: bytes) -> None:
        """Write a file, as a whole or not at all; raise FolderTaken when there is one already."""
        if not self.is_local:
            if self.size(name) is not None:
                raise FolderTaken(f"{name} is there already")
            with self.open_output(name) as stream:
                stream.write(content)
            return
        whole = Path(self._open()[1]) / name
        whole.parent.mkdir(parents=True, exist_ok=True)
        beside = whole.with_name(f".{uuid4().hex}{_UNFINISHED}")
        try:
            with beside.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            # Unlike a rename a link fails when the name is taken.
            os.link(beside, whole)
        except FileExistsError:
            raise FolderTaken(f"{name} is there already") from None
        finally:
            beside.unlink(missing_ok=True)
        _sync(whole.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
