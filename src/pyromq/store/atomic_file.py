"""A small file that is replaced whole, so that a crash leaves the old one or the new one, never a torn one.

    1. the new text is written to NAME.tmp and synced
    2. NAME becomes NAME.bak: RocketMQ keeps that twin, and so does whoever must go back by hand
    3. NAME.tmp becomes NAME
    4. the folder is synced, so that the renames outlive a power cut

Between 2 and 3 there is no NAME; a reader then takes NAME.bak, which was valid a moment ago. RocketMQ itself
copies, deletes and renames without a sync (MixAll.string2File), and reads the same two names.

A file that does not read is never taken for an empty one. While its twin reads, the damaged file is set aside
and the twin is taken. Otherwise both stay where they are, and every start is refused until somebody has
looked: a start that moved them away would be followed by one that finds nothing and forgets all topics.

These functions block; a loop calls `replace_file` in a worker thread.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from pyromq.errors import CorruptRecord, ProtocolError
from pyromq.store.files import Files, SystemFiles

T = TypeVar("T")

_log: Final = logging.getLogger("pyromq.store")


def replace_file(path: str | Path, data: bytes, *, files: Files | None = None, has_twin: bool = True) -> None:
    """Make `data` the file's whole content; when this returns it survives a power cut. Makes the folder.

    What it was stays beside it as NAME.bak, if it has such a twin. Raises StoreError when that is not
    possible; the file is then the old one or the new one.
    """
    path, files = Path(path), files or SystemFiles()
    files.make_folder(path.parent)
    temporary = _beside(path, ".tmp")
    file = files.open(temporary, 0)
    try:
        file.resize(0)
        file.write(data, 0)
        file.sync()
    finally:
        file.close()
    if has_twin and files.exists(path):
        files.rename(path, _beside(path, ".bak"))
    files.rename(temporary, path)
    files.sync_folder(path.parent)


def read_with_backup(
    path: str | Path, decode: Callable[[bytes], T], *, files: Files | None = None
) -> T | None:
    """Return what the file says, or None when neither it nor its `.bak` exists.

    A file that `decode` does not read (it raises ValueError or ProtocolError) is set aside as NAME.damaged
    and reported, and its `.bak` is read instead. Raises CorruptRecord when that does not read either, or is
    not there; nothing is moved then.
    """
    path, files = Path(path), files or SystemFiles()
    damaged: dict[Path, Exception] = {}
    for candidate in (path, _beside(path, ".bak")):
        data = files.read_all(candidate)
        if data is None:
            continue
        try:
            value = decode(data)
        except (ValueError, ProtocolError) as error:
            damaged[candidate] = error
            continue
        if damaged:
            aside = _set_aside(path, files)
            _log.error(
                "%s is damaged (%s); it was set aside as %s, and %s is used, which is one change older",
                path,
                damaged[path],
                aside.name,
                candidate.name,
            )
        return value
    if not damaged:
        return None
    what = "; ".join(f"{candidate} is damaged ({error})" for candidate, error in damaged.items())
    raise CorruptRecord(
        f"{what}; there is no other copy to take, and nothing was changed. Put a good copy in its place. "
        f"To begin with nothing, and forget all that it held, move {path.name} and {path.name}.bak away"
    )


def keep_aside(path: str | Path, data: bytes, *, files: Files | None = None) -> Path:
    """Write what does not belong into a file to NAME.illegal beside it, and return where it is.

    What a start before this one kept stays; the same is not kept twice.
    """
    path, files = Path(path), files or SystemFiles()
    aside, number = _beside(path, ".illegal"), 1
    while (known := files.read_all(aside)) is not None:
        if known == data:
            return aside
        number += 1
        aside = _beside(path, f".illegal-{number}")
    replace_file(aside, data, files=files, has_twin=False)
    return aside


def _set_aside(path: Path, files: Files) -> Path:
    aside, number = _beside(path, ".damaged"), 1
    while files.exists(aside):
        number += 1
        aside = _beside(path, f".damaged-{number}")
    files.rename(path, aside)
    files.sync_folder(path.parent)
    return aside


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
