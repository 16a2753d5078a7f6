"""The waiting messages on disk, in the order in which they are due: one SQLite file.

    {root}/timers/waiting.db    waiting   (due_ms, position) → size
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

All calls but the constructor are for one thread at a time. Thousands of rows go in and out as one JSON text,
because Python's sqlite3 takes and gives the interpreter lock for every row, and the loop would win it each
time.
"""

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from pyromq.broker.kinds.timers.near import Row
from pyromq.errors import CorruptRecord, DiskFull, StoreError

log = logging.getLogger(__name__)

_VERSION: Final = 1
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
    "CREATE TABLE waiting (due_ms INTEGER NOT NULL, position INTEGER NOT NULL, size INTEGER NOT NULL,"
    " PRIMARY KEY (due_ms, position)) WITHOUT ROWID",
    "CREATE TABLE progress (id INTEGER PRIMARY KEY CHECK (id = 0), offset INTEGER NOT NULL,"
    " position INTEGER NOT NULL, last_position INTEGER NOT NULL, last_size INTEGER NOT NULL,"
    " last_code INTEGER NOT NULL, count INTEGER NOT NULL)",
    f"PRAGMA user_version = {_VERSION}",
)
_INSERT: Final = (
    "INSERT OR IGNORE INTO waiting"
    " SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?) ORDER BY 1, 2"
)
_DELETE: Final = (
    "DELETE FROM waiting WHERE (due_ms, position) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))"
)
_MAKE_FILLING: Final = "CREATE TABLE filling (position INTEGER PRIMARY KEY, due_ms, size)"
_DROP_FILLING: Final = "DROP TABLE IF EXISTS filling"
_FILL: Final = (
    "INSERT OR IGNORE INTO filling (due_ms, position, size)"
    " SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)"
)
_UNFILL: Final = "DELETE FROM filling WHERE position IN (SELECT value ->> 1 FROM json_each(?))"
_SORT: Final = "INSERT INTO waiting SELECT due_ms, position, size FROM filling ORDER BY due_ms, position"
_NOTE: Final = "REPLACE INTO progress VALUES (0, ?, ?, ?, ?, ?, ?)"
_AS_JSON: Final = "SELECT json_group_array(json_array(due_ms, position, size)) FROM ({})"
_AFTER: Final = _AS_JSON.format(
    "SELECT * FROM waiting WHERE (due_ms, position) > (?, ?) AND due_ms <= ?"
    " ORDER BY due_ms, position LIMIT ?"
)
_PAGE: Final = "SELECT * FROM waiting WHERE (due_ms, position) > (?, ?) ORDER BY due_ms, position LIMIT ?"
_OLD: Final = _AS_JSON.format(f"SELECT * FROM ({_PAGE}) WHERE position < ?")
_LAST: Final = f"SELECT due_ms, position FROM ({_PAGE}) ORDER BY due_ms DESC, position DESC LIMIT 1"
_HAS: Final = "SELECT count(*) FROM waiting WHERE due_ms = ? AND position = ?"
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH})
#: Extended error codes have the plain one in their last byte.
_PLAIN_CODE: Final = 0xFF

_encode = msgspec.json.Encoder().encode
_decode_rows = msgspec.json.Decoder(list[Row]).decode


class TimerProgress(NamedTuple):
    """The part of the log in the table: the timer queue before `offset`, all records before `position`.

    `last` is the entry of the timer queue before `offset` as position, size and code. It tells whether the
    table belongs to this log.
    """

    offset: int
    position: int
    last: tuple[int, int, int] = (0, 0, 0)


class Changes(NamedTuple):
    """The changes of a stretch of the log: messages whose wait began, and messages whose wait ended.

    `done` has the time and the position of each message whose wait ended.
    """

    new: Sequence[Row]
    done: Sequence[tuple[int, int]]
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

    def _connect(self) -> sqlite3.Connection:
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

    def _make(self, connection: sqlite3.Connection) -> None:
        with self._transaction():
            for statement in _SCHEMA:
                connection.execute(statement)

    def apply(self, changes: Changes) -> None:
        """Take a stretch of the log in, all of it or nothing; while it is filled, to be sorted later."""
        progress, count = changes.progress, self.count
        insert, delete = (_FILL, _UNFILL) if self.is_filling else (_INSERT, _DELETE)
        with self._transaction() as connection:
            if changes.new:
                count += connection.execute(insert, (_encode(changes.new).decode(),)).rowcount
            if changes.done:
                count -= connection.execute(delete, (_encode(changes.done).decode(),)).rowcount
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
            gone = connection.execute("DELETE FROM waiting WHERE position < ?", (position,)).rowcount
            connection.execute("UPDATE progress SET count = count - ?", (gone,))
        self.count -= gone

    def next_due(self, after: tuple[int, int], until_ms: int, *, count: int) -> list[Row]:
        """Return those that are due behind `after` and not behind `until_ms`, in order, up to a count."""
        with _errors_mapped(self._path):
            (text,) = self._opened().execute(_AFTER, (*after, until_ms, count)).fetchone()
            return _decode_rows(text)

    def old_ones(
        self, before: int, after: tuple[int, int], *, look_at: int
    ) -> tuple[list[Row], tuple[int, int] | None]:
        """Look at some messages in their order; return those whose records are before a position.

        And where to go on; None when all were looked at.
        """
        with _errors_mapped(self._path):
            connection = self._opened()
            (text,) = connection.execute(_OLD, (*after, look_at, before)).fetchone()
            last = connection.execute(_LAST, (*after, look_at)).fetchone()
            return _decode_rows(text), last

    def has(self, due_ms: int, position: int) -> bool:
        """Return whether a message waits, by when it is due and where its record is."""
        with _errors_mapped(self._path):
            (found,) = self._opened().execute(_HAS, (due_ms, position)).fetchone()
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
                connection.close()
            except sqlite3.Error as error:
                log.warning("%s was not closed in order: %s", self._path, error)

    def _opened(self) -> sqlite3.Connection:
        assert self._connection is not None
        return self._connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
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


@contextmanager
def _errors_mapped(path: Path | None) -> Iterator[None]:
    """Turn SQLite's errors into ours: damaged, no room, or anything else."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & _PLAIN_CODE
        what = f"{path or 'the table of waiting messages'}: {error}"
        if code in _DAMAGED or not code:
            raise CorruptRecord(what) from error
        if code == sqlite3.SQLITE_FULL:
            raise DiskFull(what) from error
        raise StoreError(what) from error
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise CorruptRecord(f"{path}: it holds what nobody wrote: {error}") from error
    except OSError as error:
        raise StoreError(f"{path}: {error}") from error
