"""One way to run a few statements on whatever database connection the application has.

Statements are written with `:name` for a value. They run on any connection of PEP 249 (sqlite3, psycopg,
PyMySQL, …), whose module says how it marks values, and on a Connection or Session of SQLAlchemy, which is
recognised by its methods and never imported. Nothing here begins or ends a transaction unless it is told to.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, Protocol, TypeAlias, cast

from pyromq.errors import ConfigError

Value: TypeAlias = str | int | bytes | None
#: A row by its columns' names. What a column holds is the driver's to say, so readers convert it.
RowValues: TypeAlias = Mapping[str, Any]

_NAMED_VALUE = re.compile(r"(?<!:):([a-z_]+)")
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_POSITIONAL = {"qmark": "?", "format": "%s", "numeric": ":{}", "numeric_dollar": "${}"}
_NAMED = {"named": ":{}", "pyformat": "%({})s"}


class Dialect(StrEnum):
    """The databases whose words are known here; MariaDB is MySQL."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"
    MYSQL = "mysql"

    @property
    def can_skip_locked(self) -> bool:
        """Whether rows that another transaction holds can be passed over."""
        return self is not Dialect.SQLITE

    @property
    def table_options(self) -> str:
        """The end of a CREATE TABLE, so that it does not matter what the server is set to.

        MySQL would store text in the database's letters, take words that differ by case for the same, and may
        have an engine without transactions.
        """
        return (
            " ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
            if self is Dialect.MYSQL
            else ""
        )

    def insert_new(self, table: str, columns: Sequence[str]) -> str:
        """Return an INSERT that changes nothing when the row is there already."""
        names, values = ", ".join(columns), ", ".join(f":{name}" for name in columns)
        if self is Dialect.MYSQL:
            return f"INSERT IGNORE INTO {table} ({names}) VALUES ({values})"
        return f"INSERT INTO {table} ({names}) VALUES ({values}) ON CONFLICT DO NOTHING"


_DIALECTS = {
    "sqlite3": Dialect.SQLITE,
    "pysqlite3": Dialect.SQLITE,
    "sqlite": Dialect.SQLITE,
    "psycopg": Dialect.POSTGRESQL,
    "psycopg2": Dialect.POSTGRESQL,
    "pg8000": Dialect.POSTGRESQL,
    "postgresql": Dialect.POSTGRESQL,
    "pymysql": Dialect.MYSQL,
    "MySQLdb": Dialect.MYSQL,
    "mysql": Dialect.MYSQL,
    "mariadb": Dialect.MYSQL,
}


class Connection(Protocol):
    """The part of PEP 249's connection that SQLAlchemy's has, too."""

    def commit(self) -> None:
        """Make what was done last."""
        ...

    def rollback(self) -> None:
        """Undo what was done."""
        ...

    def close(self) -> None:
        """Give the connection up."""
        ...


class Statements(Protocol):
    """Runs statements on one connection, in the transaction that it is in."""

    dialect: Dialect

    def execute(self, statement: str, **values: Value) -> int:
        """Run a statement and return how many rows it changed."""
        ...

    def rows(self, statement: str, **values: Value) -> list[RowValues]:
        """Run a query and return its rows."""
        ...


def statements(connection: object, dialect: str | None = None) -> Statements:
    """Return what runs statements on a connection; raise ConfigError when it is of no kind we know.

    `dialect` is for drivers that are not known by name: `sqlite`, `postgresql` or `mysql`.
    """
    if hasattr(connection, "exec_driver_sql"):
        return _SqlAlchemyStatements(connection, dialect)
    if hasattr(connection, "get_bind") and hasattr(connection, "connection"):
        return _SqlAlchemyStatements(connection.connection(), dialect)
    if hasattr(connection, "cursor"):
        return _DriverStatements(connection, dialect)
    raise ConfigError(
        f"{type(connection).__qualname__} is no database connection: give a connection of PEP 249 (sqlite3, "
        "psycopg, PyMySQL) or a Connection or Session of SQLAlchemy"
    )


def dialect_named(name: str) -> Dialect:
    """Return the dialect of a database or driver; raise ConfigError when it is not known."""
    try:
        return _DIALECTS[name]
    except KeyError:
        known = ", ".join(Dialect)
        raise ConfigError(f"the database {name!r} is not known here; say which it is like: {known}") from None


def checked_table(name: str) -> str:
    """Return a table's name; raise ConfigError unless it is plain words, for it goes into statements."""
    if not _TABLE.fullmatch(name):
        raise ConfigError(f"table {name!r}: letters, digits and underscores, with one dot for a schema")
    return name


class _DriverStatements:
    """On a connection of PEP 249."""

    def __init__(self, connection: object, dialect: str | None) -> None:
        self._connection = cast("Any", connection)
        module = _driver_of(connection)
        self.dialect = dialect_named(dialect or module.__name__.partition(".")[0])
        self._marks: str = module.paramstyle

    def execute(self, statement: str, **values: Value) -> int:
        cursor = self._run(statement, values)
        changed: int = cursor.rowcount
        cursor.close()
        return changed

    def rows(self, statement: str, **values: Value) -> list[RowValues]:
        cursor = self._run(statement, values)
        names = [column[0] for column in cursor.description]
        # A driver may have been told to make dictionaries of rows.
        found = [row if isinstance(row, Mapping) else dict(zip(names, row, strict=True)) for row in cursor]
        cursor.close()
        return found

    def _run(self, statement: str, values: Mapping[str, Value]) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(*_marked(statement, self._marks, values))
        return cursor


class _SqlAlchemyStatements:
    """On a connection of SQLAlchemy; not on the driver's below it, or a commit would not know of our work."""

    def __init__(self, connection: object, dialect: str | None) -> None:
        self._connection = cast("Any", connection)
        self.dialect = dialect_named(dialect or self._connection.dialect.name)

    def execute(self, statement: str, **values: Value) -> int:
        result = self._run(statement, values)
        changed: int = result.rowcount
        result.close()
        return changed

    def rows(self, statement: str, **values: Value) -> list[RowValues]:
        return [dict(row) for row in self._run(statement, values).mappings()]

    def _run(self, statement: str, values: Mapping[str, Value]) -> Any:
        marks = self._connection.dialect.paramstyle
        return self._connection.exec_driver_sql(*_marked(statement, marks, values))


def _driver_of(connection: object) -> Any:
    """Return the module that a connection, or what it is derived from, belongs to."""
    for kind in type(connection).__mro__:
        parts = kind.__module__.split(".")
        for end in range(len(parts), 0, -1):
            module = sys.modules.get(".".join(parts[:end]))
            if hasattr(module, "paramstyle"):
                return module
    raise ConfigError(
        f"the module of {type(connection).__qualname__} does not say how it marks values (`paramstyle`, "
        "PEP 249): give the driver's own connection, not one that wraps it"
    )


def _marked(
    statement: str, marks: str, values: Mapping[str, Value]
) -> tuple[str, tuple[Value, ...] | Mapping[str, Value]]:
    text, names = _marked_text(statement, marks)
    return text, (values if marks in _NAMED else tuple(values[name] for name in names))


@lru_cache(maxsize=256)
def _marked_text(statement: str, marks: str) -> tuple[str, tuple[str, ...]]:
    names: list[str] = []

    def mark(found: re.Match[str]) -> str:
        names.append(found[1])
        if marks in _NAMED:
            return _NAMED[marks].format(found[1])
        return _POSITIONAL[marks].format(len(names))

    text = _NAMED_VALUE.sub(mark, statement)
    return text, tuple(names)
