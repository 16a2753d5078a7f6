"""Tokens in the application's own database, or in a file of SQLite."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from os import PathLike
from typing import Final, TypeAlias

from pyromq.clock import Clock, SystemClock
from pyromq.errors import ConfigError
from pyromq.once.tokens import KEEP, KEY_CHARACTERS_MAX, LEASE, Began, in_ms, stored_key
from pyromq.sql import Connection, Dialect, Statements, checked_table, dialect_named, statements

DEFAULT_TABLE: Final = "pyromq_once"
#: Opens a connection, PEP 249's or SQLAlchemy's; a pool's are best.
Connect: TypeAlias = Callable[[], Connection]

_PROCESSING: Final = "processing"
_DONE: Final = "done"
#: Tokens whose time is over are removed by whoever begins, once in that many milliseconds.
_SWEEP_MS: Final = 60_000
#: And not more at once than that, where rows are removed one by one.
_SWEEP_ROWS: Final = 1_000
_COLUMNS: Final = ("token_key", "state", "owner", "expires_ms")


class DbTokens:
    """Tokens in a table of any database with a connection of PEP 249 or SQLAlchemy.

        tokens = DbTokens(engine.connect, scope="billing")
        tokens.create_table(connection)

    `begin`, `finish` and `forget` use connections of their own, and close them. `record` uses the
    application's, in its transaction. `scope` keeps apart those who share the table: give each consumer group
    its own, or what one has done, another will not do.
    """

    def __init__(
        self,
        connect: Connect,
        table: str = DEFAULT_TABLE,
        *,
        scope: str = "",
        lease: timedelta = LEASE,
        keep: timedelta = KEEP,
        clock: Clock | None = None,
    ) -> None:
        self._connect = connect
        self._table = checked_table(table)
        self._scope = scope
        self._lease_ms = in_ms(lease)
        self._keep_ms = in_ms(keep)
        self._clock = clock or SystemClock()
        self._swept_ms = 0

    def ddl(self, dialect: str) -> str:
        """Return the statement that makes the table in a database, for a migration."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self._table} (token_key VARCHAR({KEY_CHARACTERS_MAX}) PRIMARY KEY, "
            "state VARCHAR(16) NOT NULL, owner VARCHAR(64) NOT NULL, expires_ms BIGINT NOT NULL)"
            + dialect_named(dialect).table_options
        )

    def create_table(self, connection: object) -> None:
        """Make the table unless it is there. The caller commits."""
        on = statements(connection)
        on.execute(self.ddl(on.dialect))

    def begin(self, key: str, owner: str) -> Began:
        """Take the token, unless another holds it or the work is done."""
        self._sweep()
        with self._own_transaction() as on:
            if self._take(on, key, owner, _PROCESSING, self._lease_ms):
                return Began.MINE
            found = on.rows(f"SELECT state FROM {self._table} WHERE token_key = :key", key=self._key(key))
            return Began.DONE if found and found[0]["state"] == _DONE else Began.BUSY

    def finish(self, key: str, owner: str) -> None:
        """Write down that the work is done; if the lease ran out and another took it, that is for them."""
        with self._own_transaction() as on:
            on.execute(
                f"UPDATE {self._table} SET state = :state, expires_ms = :expires "
                "WHERE token_key = :key AND owner = :owner",
                state=_DONE,
                expires=self._clock.now_ms() + self._keep_ms,
                key=self._key(key),
                owner=owner,
            )

    def forget(self, key: str, owner: str) -> None:
        """Remove the token if it is still ours, so that the work can be begun again."""
        with self._own_transaction() as on:
            on.execute(
                f"DELETE FROM {self._table} WHERE token_key = :key AND owner = :owner",
                key=self._key(key),
                owner=owner,
            )

    def record(self, connection: object, key: str, owner: str) -> bool:
        """Write down, in the connection's transaction, that the work is done; False if it was done before.

        Whoever records the same key at the same time waits here until that transaction has ended: a database
        does not let two of them in.
        """
        return self._take(statements(connection), key, owner, _DONE, self._keep_ms)

    def _take(self, on: Statements, key: str, owner: str, state: str, lasts_ms: int) -> bool:
        now_ms = self._clock.now_ms()
        inserted = on.execute(
            on.dialect.insert_new(self._table, _COLUMNS),
            token_key=self._key(key),
            state=state,
            owner=owner,
            expires_ms=now_ms + lasts_ms,
        )
        # Not one statement with a condition: MySQL's words for that do not tell what they did.
        return inserted > 0 or self._take_expired(on, key, owner, state, lasts_ms) > 0

    def _take_expired(self, on: Statements, key: str, owner: str, state: str, lasts_ms: int) -> int:
        now_ms = self._clock.now_ms()
        if on.dialect is Dialect.MYSQL:
            # There the INSERT that found the row shares a lock on it with all others who came. Were they all
            # to write now, whether the row has expired or not, each would wait for each, a deadlock.
            found = on.rows(
                f"SELECT expires_ms FROM {self._table} WHERE token_key = :key LOCK IN SHARE MODE",
                key=self._key(key),
            )
            if found and found[0]["expires_ms"] > now_ms:
                return 0
        return on.execute(
            f"UPDATE {self._table} SET state = :state, owner = :owner, expires_ms = :expires "
            "WHERE token_key = :key AND expires_ms <= :now",
            state=state,
            owner=owner,
            expires=now_ms + lasts_ms,
            key=self._key(key),
            now=now_ms,
        )

    def _sweep(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms - self._swept_ms < _SWEEP_MS:
            return
        self._swept_ms = now_ms
        with self._own_transaction() as on:
            if not on.dialect.can_skip_locked:
                on.execute(f"DELETE FROM {self._table} WHERE expires_ms <= :now", now=now_ms)
                return
            # Nobody is waited for: whoever has a row takes it anew. Under MySQL's own level, rows that are
            # only looked at would be locked too.
            on.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            expired = on.rows(
                f"SELECT token_key FROM {self._table} WHERE expires_ms <= :now LIMIT {_SWEEP_ROWS} "
                "FOR UPDATE SKIP LOCKED",
                now=now_ms,
            )
            for row in expired:
                on.execute(f"DELETE FROM {self._table} WHERE token_key = :key", key=row["token_key"])

    def _key(self, key: str) -> str:
        return stored_key(self._scope, key)

    @contextmanager
    def _own_transaction(self) -> Iterator[Statements]:
        with closing(self._connect()) as connection:
            try:
                yield statements(connection)
                connection.commit()
            except BaseException:
                connection.rollback()
                raise


class SqliteTokens(DbTokens):
    """Tokens in a file of SQLite, made when it is not there; for consumers on one machine."""

    def __init__(
        self,
        path: str | PathLike[str],
        table: str = DEFAULT_TABLE,
        *,
        scope: str = "",
        lease: timedelta = LEASE,
        keep: timedelta = KEEP,
        clock: Clock | None = None,
    ) -> None:
        if not path or str(path) == ":memory:":
            raise ConfigError("tokens must outlive a connection: give the path of a file")
        super().__init__(
            lambda: sqlite3.connect(path, timeout=30.0),
            table,
            scope=scope,
            lease=lease,
            keep=keep,
            clock=clock,
        )
        with self._own_transaction() as on:
            on.execute(self.ddl(Dialect.SQLITE))
