"""The waiting messages on disk, in the order in which they are due: one SQLite file.

    {root}/timers/waiting.db    waiting   due_ms, position, size: twenty bytes, which are the key
                                progress  one row: which part of the log is in it
                                          │
    log   ├─────────────────────────────┤ position
          every timed message here that no done record here names: exactly those are in `waiting`

The file follows the log as the consume queues do, and says nothing that the log does not say. Entries and
progress move together, in one transaction, and only as far as the log is synced. So whatever a crash leaves,
the file holds the waiting messages of a stretch of the log that is still there, and the rest of the log tells
what happened since (`keeper.py`). That is why a transaction may be lost: WAL with synchronous=NORMAL
never leaves half of one, and syncs only when it moves pages into the main file.

A table that is new is filled in the log's order first and sorted once (`begin_filling`): five million
messages that are due in no order would touch every page again and again.

All calls but the constructor are for one thread at a time. Thousands of rows go in as one value, and SQLite
cuts it; they come out as one text of hex digits. Python's sqlite3 takes and gives the interpreter lock for
every row, and the loop would win it each time.
"""

import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyromq.broker.kinds.timers.due_rows import ROW
from pyromq.broker.kinds.timers.near import DUE_MS_MAX, POSITION_MAX, Row
from pyromq.errors import CorruptRecord, DiskFull, StoreError

if TYPE_CHECKING:
    import sqlite3

log = logging.getLogger(__name__)

#: Version 1 had a column each for time, position and size.
_VERSION: Final = 2
#: Pages that are kept in memory, in KiB; the system keeps the others.
_CACHE_KIB: Final = 8 * 1024
#: Pages in the write-ahead log before they are moved into the file.
_LOG_PAGES_MAX: Final = 16384
_SETUP: Final = (
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    f"PRAGMA cache_size = -{_CACHE_KIB}",
    f"PRAGMA wal_autocheckpoint = {_LOG_PAGES_MAX}",
    # Sorting five million rows takes more memory than we have for it.
    "PRAGMA temp_store = FILE",
)
_SCHEMA: Final = (
    "CREATE TABLE waiting (row BLOB NOT NULL PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE progress (id INTEGER PRIMARY KEY CHECK (id = 0), offset INTEGER NOT NULL,"
    " position INTEGER NOT NULL, last_position INTEGER NOT NULL, last_size INTEGER NOT NULL,"
    " last_code INTEGER NOT NULL, count INTEGER NOT NULL)",
    f"PRAGMA user_version = {_VERSION}",
)
#: Cuts one value into rows, of which `at` is where each begins; a statement begins with INSERT or DELETE, or
#: Python's sqlite3 does not count.
_CUT: Final = (
    f"WITH RECURSIVE cut(at) AS (VALUES (1) UNION ALL SELECT at + {ROW.size} FROM cut"
    f" WHERE at + {ROW.size} < length(?1)) SELECT {{}} FROM cut"
)
_CUT_ROW: Final = f"substr(?1, at, {ROW.size})"
_CUT_POSITION: Final = "substr(?1, at + 8, 8)"
_INSERT: Final = f"INSERT OR IGNORE INTO waiting {_CUT.format(_CUT_ROW)}"
_DELETE: Final = f"DELETE FROM waiting WHERE row IN ({_CUT.format(_CUT_ROW)})"
_MAKE_FILLING: Final = (
    "CREATE TABLE filling (position BLOB NOT NULL PRIMARY KEY, row BLOB NOT NULL) WITHOUT ROWID"
)
_DROP_FILLING: Final = "DROP TABLE IF EXISTS filling"
_FILL: Final = f"INSERT OR IGNORE INTO filling {_CUT.format(f'{_CUT_POSITION}, {_CUT_ROW}')}"
_UNFILL: Final = f"DELETE FROM filling WHERE position IN ({_CUT.format(_CUT_POSITION)})"
_SORT: Final = "INSERT INTO waiting SELECT row FROM filling ORDER BY row"
_NOTE: Final = "REPLACE INTO progress VALUES (0, ?, ?, ?, ?, ?, ?)"
_AS_HEX: Final = "SELECT coalesce(group_concat(hex(row), ''), '') FROM ({})"
_AFTER: Final = _AS_HEX.format("SELECT row FROM waiting WHERE row > ? AND row < ? ORDER BY row LIMIT ?")
_PAGE: Final = "SELECT row FROM waiting WHERE row > ? ORDER BY row LIMIT ?"
_POSITION: Final = "substr(row, 9, 8)"
_OLD: Final = _AS_HEX.format(f"SELECT row FROM ({_PAGE}) WHERE {_POSITION} < ?")
_LAST: Final = f"SELECT max(row) FROM ({_PAGE})"
_FORGET: Final = f"DELETE FROM waiting WHERE {_POSITION} < ?"
_HAS: Final = "SELECT count(*) FROM waiting WHERE row > ? AND row <= ?"
#: Extended error codes have the plain one in their last byte.
_PLAIN_CODE: Final = 0xFF
_NUMBER: Final = struct.Struct(">Q")
_PLACE: Final = struct.Struct(">QQ")
#: Behind every size.
_ALL_SIZES: Final = b"\xff\xff\xff\xff"


class TimerProgress(NamedTuple):
    """The part of the log in the table: the timer queue before `offset`, all records before `position`.

    `last` is the entry of the timer queue before `offset` as position, size and code. It tells whether the
    table belongs to this log.
    """

    offset: int
    position: int
    last: tuple[int, int, int] = (0, 0, 0)


class Changes(NamedTuple):
    """The changes of a stretch of the log: rows of messages whose wait began, and of those whose wait ended.

    Both are bytes, row behind row, and quickest in their order. While a table is filled, only the positions
    of those that are done count.
    """

    new: bytes
    done: bytes
    progress: TimerProgress


class WaitingTable:
    """The file. Without a path it is in memory, and gone with the process."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        #: How many wait.
        self.count = 0
        #: Whether what is taken in is sorted only at the end.
        self.is_filling = False

    @property
    def is_open(self) -> bool:
        """Whether it can be read and written."""
        return self._connection is not None

    @property
    def exists(self) -> bool:
        """Whether there is a file, opened or not."""
        return self._connection is not None or (self._path is not None and self._path.exists())

    def open(self) -> TimerProgress | None:
        """Open the file, made if need be, and return how far it goes; None when it is new.

        Raises CorruptRecord when it is damaged, DiskFull or StoreError when it cannot be used.
        """
        with _errors_mapped(self._path):
            connection = self._connection = self._connection or self._connect()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == 0:
                self._make(connection)
            elif version != _VERSION:
                raise CorruptRecord(f"{self._path} has version {version}, and this is {_VERSION}")
            row = connection.execute("SELECT * FROM progress").fetchone()
            if row is None:
                return None
            _, offset, position, *last, self.count = row
            return TimerProgress(offset, position, tuple(last))

    def _connect(self) -> "sqlite3.Connection":
        # Only now: a broker without timed messages does without SQLite.
        import sqlite3

        if self._path is None:
            path = ":memory:"
        else:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            path = str(self._path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            for statement in _SETUP:
                connection.execute(statement)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _make(self, connection: "sqlite3.Connection") -> None:
        with self._transaction():
            for statement in _SCHEMA:
                connection.execute(statement)

    def apply(self, changes: Changes) -> None:
        """Take a stretch of the log in, all of it or nothing; while it is filled, to be sorted later."""
        progress, count = changes.progress, self.count
        insert, delete = (_FILL, _UNFILL) if self.is_filling else (_INSERT, _DELETE)
        with self._transaction() as connection:
            if changes.new:
                count += connection.execute(insert, (changes.new,)).rowcount
            if changes.done:
                count -= connection.execute(delete, (changes.done,)).rowcount
            if not self.is_filling:
                connection.execute(_NOTE, (progress.offset, progress.position, *progress.last, count))
        self.count = 0 if self.is_filling else count

    def begin_filling(self) -> None:
        """Begin to fill a new table; whatever was filled before and not ended is gone."""
        with self._transaction() as connection:
            connection.execute(_DROP_FILLING)
            connection.execute(_MAKE_FILLING)
        self.is_filling = True

    def end_filling(self, progress: TimerProgress) -> None:
        """Sort what was filled in, and note how far that goes, both or nothing."""
        with self._transaction() as connection:
            count = connection.execute(_SORT).rowcount
            connection.execute(_DROP_FILLING)
            connection.execute(_NOTE, (progress.offset, progress.position, *progress.last, count))
        self.count, self.is_filling = count, False

    def forget_before(self, position: int) -> None:
        """Drop what points before a position: the log let go of it, so it does not wait any more."""
        with self._transaction() as connection:
            gone = connection.execute(_FORGET, (_NUMBER.pack(position),)).rowcount
            connection.execute("UPDATE progress SET count = count - ?", (gone,))
        self.count -= gone

    def next_due(self, after: tuple[int, int], until_ms: int, *, count: int) -> list[Row]:
        """Return those that are due behind `after` and not behind `until_ms`, in order, up to a count."""
        with _errors_mapped(self._path):
            behind = _NUMBER.pack(min(max(until_ms, -1), DUE_MS_MAX) + 1)
            (text,) = self._opened().execute(_AFTER, (_before_rest(after), behind, count)).fetchone()
            return _rows_of(text)

    def old_ones(
        self, before: int, after: tuple[int, int], *, look_at: int
    ) -> tuple[list[Row], tuple[int, int] | None]:
        """Look at some messages in their order; return those whose records are before a position.

        And where to go on; None when all were looked at.
        """
        with _errors_mapped(self._path):
            connection, rest = self._opened(), _before_rest(after)
            (text,) = connection.execute(_OLD, (rest, look_at, _NUMBER.pack(before))).fetchone()
            (last,) = connection.execute(_LAST, (rest, look_at)).fetchone()
            return _rows_of(text), None if last is None else ROW.unpack(last)[:2]

    def has(self, due_ms: int, position: int) -> bool:
        """Return whether a message waits, by when it is due and where its record is."""
        with _errors_mapped(self._path):
            place = _PLACE.pack(due_ms, position)
            (found,) = self._opened().execute(_HAS, (place, place + _ALL_SIZES)).fetchone()
            return bool(found)

    def remove(self) -> None:
        """Remove the file, so that `open` begins with an empty one."""
        self.close()
        self.count, self.is_filling = 0, False
        if self._path is not None:
            with _errors_mapped(self._path):
                for ending in ("", "-wal", "-shm"):
                    self._path.with_name(self._path.name + ending).unlink(missing_ok=True)

    def close(self) -> None:
        """Move everything into the main file and give it back; can be called twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                with _errors_mapped(self._path):
                    connection.close()
            except StoreError as error:
                log.warning("not closed in order: %s", error)

    def _opened(self) -> "sqlite3.Connection":
        assert self._connection is not None
        return self._connection

    @contextmanager
    def _transaction(self) -> "Iterator[sqlite3.Connection]":
        """All of it or nothing."""
        with _errors_mapped(self._path):
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


def _before_rest(after: tuple[int, int]) -> bytes:
    """Return the bytes before all rows that are due behind a time and a position."""
    due_ms, position = after
    if due_ms < 0:
        return b""
    due_ms = min(due_ms, DUE_MS_MAX)
    if position < 0:
        return _NUMBER.pack(due_ms)
    return _PLACE.pack(due_ms, min(position, POSITION_MAX)) + _ALL_SIZES


def _rows_of(text: str) -> list[Row]:
    return list(ROW.iter_unpack(bytes.fromhex(text)))


@contextmanager
def _errors_mapped(path: Path | None) -> Iterator[None]:
    """Turn SQLite's errors into ours: damaged, no room, or anything else."""
    # Only now, as in `_connect`.
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & _PLAIN_CODE
        what = f"{path or 'the table of waiting messages'}: {error}"
        damaged = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH)
        if code in damaged or not code:
            raise CorruptRecord(what) from error
        if code == sqlite3.SQLITE_FULL:
            raise DiskFull(what) from error
        raise StoreError(what) from error
    except (struct.error, TypeError, ValueError) as error:
        raise CorruptRecord(f"{path}: it holds what nobody wrote: {error}") from error
    except OSError as error:
        raise StoreError(f"{path}: {error}") from error
