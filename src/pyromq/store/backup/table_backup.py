"""The copy of the files beside the log: tables, epochs, and scheduled messages.

Tables are small and replaced whole at the source, so they are read whole. Tables that refer to messages are
read before the end of the log is; tables that messages refer to are read after it.

`config/replica.json` is left out. It says "this folder has all that the group was promised", which is not
true of a copy that is put back later. A replica without the file counts as new, and copies what it lacks from
the master before it may become master.
"""

import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from pyromq.errors import StoreError
from pyromq.store.atomic_file import read_with_backup, replace_file
from pyromq.store.epochs import FILE_NAME as EPOCHS
from pyromq.store.epochs import Epoch, decode_epochs, encode_epochs
from pyromq.store.files import Files, SystemFiles
from pyromq.store.inspect.read_only_files import FileGone, ReadOnlyFile, names_in, read_whole

_FOLDER: Final = "config"
#: A message whose topic is not known cannot be read, so these are looked at when the log is copied.
_LATE: Final = frozenset({"topics.json", "subscriptionGroup.json"})
_LEFT_OUT: Final = frozenset({"replica.json"})
_PASSING: Final = (".tmp", ".bak", ".damaged")
_TIMERS: Final = "timers/waiting.db"
_SUFFIX: Final = ".new"
_WAL_HEADER_BYTES: Final = 32
_TRIES: Final = 5


class TablesCopy:
    """The tables of a store, held until they are put in place."""

    def __init__(self, source: Path, target: Path, files: Files) -> None:
        self._source = source
        self._target = target
        self._files = files
        self._held: dict[str, bytes] = {}
        self._epochs: tuple[Epoch, ...] | None = None

    @property
    def count(self) -> int:
        """The number of tables that are held."""
        return len(self._held)

    def read_early(self) -> None:
        """Read what speaks of messages, and must not know more of them than the log's copy will have."""
        for name in _names_below(self._source, _FOLDER):
            if Path(name).name not in _LATE:
                self._hold(name)

    def read_late(self, log_end: int) -> None:
        """Read what messages need: their topics, their groups, and who wrote them."""
        for name in _LATE:
            self._hold(f"{_FOLDER}/{name}")
        found = read_with_backup(self._source / EPOCHS, decode_epochs)
        self._epochs = found and tuple(epoch for epoch in found if epoch.start <= log_end)

    def _hold(self, name: str) -> None:
        # Between the two renames of a replaced table there is only its twin.
        data = read_whole(self._source / name)
        if data is None:
            data = read_whole(self._source / f"{name}.bak")
        if data is not None:
            self._held[name] = data

    def put_in_place(self) -> None:
        """Replace the copies, one by one, and remove those of tables that are gone."""
        for name, data in self._held.items():
            self._protect(name)
            replace_file(self._target / name, data, files=self._files)
        for name in list(_copies_below(self._files, self._target, _FOLDER)):
            if name not in self._held:
                self._files.remove(self._target / name)
        if self._epochs:
            replace_file(self._target / EPOCHS, encode_epochs(self._epochs), files=self._files)

    def _protect(self, name: str) -> None:
        """Let nobody read the copy who may not read the file: there are secrets in plain_acl.yml."""
        if isinstance(self._files, SystemFiles):
            path = self._target / f"{name}.tmp"
            self._files.make_folder(path.parent)
            try:
                mode = stat.S_IMODE((self._source / name).stat().st_mode)
            except FileNotFoundError:
                mode = 0o600
            path.unlink(missing_ok=True)
            path.touch(mode, exist_ok=False)


def copy_timers(source: Path, target: Path) -> Path | None:
    """Copy what waits for its time beside its place, and return the copy; None when there is nothing.

    The broker has the SQLite file for itself, so it is copied as bytes: the file, and behind it its log, of
    which SQLite takes whole transactions only. That is one state of the table unless the file was written
    meanwhile, or the log begun again; then it is copied once more. A copy that cannot be had is not needed:
    the table is made again from the store's log.

    To be called in another process than the broker's: closing the file would take its locks away.
    """
    database, copied = source / _TIMERS, target / f"{_TIMERS}{_SUFFIX}"
    for _ in range(_TRIES):
        before = _state_of(database)
        if before is None:
            return None
        try:
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(database, copied)
            _wal_of(copied).unlink(missing_ok=True)
            if _wal_of(database).exists():
                shutil.copyfile(_wal_of(database), _wal_of(copied))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(f"copying {database} failed: {error.strerror}") from error
        if _state_of(database) == before and _is_settled(copied):
            _sync(copied)
            return copied
    _remove_timers(copied)
    return None


def put_timers_in_place(copied: Path) -> None:
    """Let a copy be the table."""
    place = copied.with_name(copied.name.removesuffix(_SUFFIX))
    _remove_timers(place)
    copied.replace(place)
    SystemFiles().sync_folder(place.parent)


def _sync(copied: Path) -> None:
    file = SystemFiles().open(copied, 0)
    try:
        file.sync()
    finally:
        file.close()


def _is_settled(database: Path) -> bool:
    """Bring the log of a copy into its file, and return whether it is whole."""
    try:
        with closing(sqlite3.connect(database)) as connection:
            (found,) = connection.execute("PRAGMA quick_check").fetchone()
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error:
        return False
    return bool(found == "ok")


def _state_of(database: Path) -> tuple[int, int, bytes] | None:
    """Return what changes when the file is written, or its log is begun again."""
    try:
        with ReadOnlyFile(database) as file:
            stamp = file.stamp
    except FileGone:
        return None
    try:
        with ReadOnlyFile(_wal_of(database)) as log:
            return *stamp, log.read(_WAL_HEADER_BYTES, 0)
    except FileGone:
        return *stamp, b""


def _remove_timers(database: Path) -> None:
    for ending in ("-wal", "-shm", "-journal", ""):
        database.with_name(database.name + ending).unlink(missing_ok=True)


def _wal_of(database: Path) -> Path:
    return database.with_name(database.name + "-wal")


def _names_below(root: Path, folder: str) -> Iterator[str]:
    for name in names_in(root / folder):
        if (root / folder / name).is_dir():
            yield from _names_below(root, f"{folder}/{name}")
        elif name not in _LEFT_OUT:
            # A table may be away for a moment, and then has its twin.
            if not name.endswith(_PASSING):
                yield f"{folder}/{name}"
            elif name.endswith(".bak") and not (root / folder / name.removesuffix(".bak")).exists():
                yield f"{folder}/{name.removesuffix('.bak')}"


def _copies_below(files: Files, root: Path, folder: str) -> Iterator[str]:
    for name in files.names(root / folder):
        if files.names(root / folder / name):
            yield from _copies_below(files, root, f"{folder}/{name}")
        elif not name.endswith(_PASSING):
            yield f"{folder}/{name}"
