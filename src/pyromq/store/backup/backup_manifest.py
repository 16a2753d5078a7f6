"""`backup.json`: whose copy a folder is, up to where the log was copied, and whether it was finished."""

from pathlib import Path
from typing import Final

import msgspec

from pyromq.errors import CorruptRecord
from pyromq.store.atomic_file import replace_file
from pyromq.store.files import Files

FILE_NAME: Final = "backup.json"

#: A file's length, and when it was changed last, in nanoseconds since 1970.
Stamp = tuple[int, int]


class BackupManifest(msgspec.Struct, kw_only=True, rename="camel"):
    """The manifest file of a backup."""

    #: Host and folder, for people: a store has no name of its own.
    source: str
    #: Whether it was finished once, so that a broker may be started on it.
    is_whole: bool = False
    #: The positions of the log between which everything is here.
    begin: int = 0
    end: int = 0
    started_at_ms: int = 0
    ended_at_ms: int = 0
    #: What the files that follow the log were when they were copied, by their path in the store.
    stamps: dict[str, Stamp] = {}

    def save(self, folder: Path, files: Files) -> None:
        """Replace the file; when this returns, the new one survives a power cut."""
        replace_file(folder / FILE_NAME, msgspec.json.encode(self), files=files)


def load_manifest(folder: Path, files: Files) -> BackupManifest | None:
    """Return what a folder says, or None when it is no backup.

    Raises CorruptRecord when it does not read.
    """
    path = folder / FILE_NAME
    data = files.read_all(path) or files.read_all(path.with_name(FILE_NAME + ".bak"))
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=BackupManifest)
    except msgspec.DecodeError as error:
        raise CorruptRecord(
            f"{path} does not read ({error}); make a new backup in an empty folder"
        ) from error
