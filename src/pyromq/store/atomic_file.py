"""A small file that is replaced whole, so that a crash leaves the old one or the new one, never a torn one.

    1. the new text is written to NAME.tmp and synced
    2. NAME becomes NAME.bak: RocketMQ keeps that twin, and so does whoever must go back by hand
    3. NAME.tmp becomes NAME
    4. the folder is synced, so that the renames outlive a power cut

Between 2 and 3 there is no NAME; a reader then takes NAME.bak, which was valid a moment ago. RocketMQ itself
copies, deletes and renames without a sync (MixAll.string2File), and reads the same two names.

These functions block; a loop calls `replace_file` in a worker thread.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pyromq.errors import CorruptRecord, ProtocolError

T = TypeVar("T")

_log = logging.getLogger("pyromq.store")


def replace_file(path: str | Path, data: bytes) -> None:
    """Make `data` the file's whole content; when this returns it survives a power cut. Makes the folder."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path, ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        path.replace(_beside(path, ".bak"))
    temporary.replace(path)
    _sync_folder(path.parent)


def read_with_backup(path: str | Path, decode: Callable[[bytes], T]) -> T | None:
    """Return what the file says, or None when neither it nor its `.bak` exists.

    A file that `decode` does not read (it raises ValueError or ProtocolError) is set aside as NAME.damaged
    and reported, and its `.bak` is read instead. Raises CorruptRecord when that does not read either.
    """
    path = Path(path)
    error: Exception | None = None
    for candidate in (path, _beside(path, ".bak")):
        try:
            return decode(candidate.read_bytes())
        except FileNotFoundError:
            continue
        except (ValueError, ProtocolError) as damage:
            error = damage
            aside = _beside(candidate, ".damaged")
            candidate.replace(aside)
            _log.warning("%s is damaged (%s); it was set aside as %s", candidate, damage, aside.name)
    if error is None:
        return None
    raise CorruptRecord(
        f"{path} and its .bak do not read; look at {path.name}.damaged, mend it, and give it its name back"
    ) from error


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
