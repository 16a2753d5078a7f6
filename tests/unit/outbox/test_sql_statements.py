"""Statements run on whatever connection the application has."""

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from pyromq.errors import ConfigError
from pyromq.sql import Dialect, checked_table, dialect_named, statements


class Cursor:
    description = ()
    rowcount = 1

    def __init__(self, ran: list[tuple[str, object]]) -> None:
        self._ran = ran

    def execute(self, statement: str, values: object) -> None:
        self._ran.append((statement, values))

    def close(self) -> None:
        pass


class Connection:
    def __init__(self) -> None:
        self.ran: list[tuple[str, object]] = []

    def cursor(self) -> Cursor:
        return Cursor(self.ran)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:")
    opened.execute("CREATE TABLE words (word TEXT PRIMARY KEY, length INTEGER)")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("marks", "statement", "values"),
    [
        ("qmark", "UPDATE t SET a = ? WHERE b = ?", (1, 2)),
        ("format", "UPDATE t SET a = %s WHERE b = %s", (1, 2)),
        ("numeric", "UPDATE t SET a = :1 WHERE b = :2", (1, 2)),
        ("named", "UPDATE t SET a = :new WHERE b = :old", {"old": 2, "new": 1}),
        ("pyformat", "UPDATE t SET a = %(new)s WHERE b = %(old)s", {"old": 2, "new": 1}),
    ],
)
def test_values_are_marked_as_the_driver_s_module_says(
    monkeypatch: pytest.MonkeyPatch, marks: str, statement: str, values: object
) -> None:
    driver = ModuleType("pymysql")
    driver.paramstyle = marks  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pymysql", driver)
    connection = type("Connection", (Connection,), {"__module__": "pymysql.connections"})()

    statements(connection).execute("UPDATE t SET a = :new WHERE b = :old", old=2, new=1)

    assert connection.ran == [(statement, values)]


def test_rows_have_their_columns_names(connection: sqlite3.Connection) -> None:
    on = statements(connection)

    changed = on.execute("INSERT INTO words VALUES (:word, :length)", word="moi", length=3)

    assert changed == 1
    assert on.rows("SELECT word, length FROM words") == [{"word": "moi", "length": 3}]


def test_a_driver_that_makes_rows_of_its_own_kind_does_not_matter(connection: sqlite3.Connection) -> None:
    connection.row_factory = lambda cursor, row: dict(
        zip([column[0] for column in cursor.description], row, strict=True)
    )

    assert statements(connection).rows("SELECT 1 AS one") == [{"one": 1}]


def test_a_connection_class_of_the_application_s_own_is_known_by_what_it_is_derived_from() -> None:
    class Audited(sqlite3.Connection):
        pass

    connection = sqlite3.connect(":memory:", factory=Audited)

    assert statements(connection).dialect is Dialect.SQLITE
    connection.close()


def test_nothing_is_committed_unasked(tmp_path: Path) -> None:
    writer, reader = (sqlite3.connect(tmp_path / "words.db") for _ in range(2))
    writer.execute("CREATE TABLE words (word TEXT)")

    statements(writer).execute("INSERT INTO words VALUES (:word)", word="moi")

    assert reader.execute("SELECT * FROM words").fetchall() == []
    writer.commit()
    assert reader.execute("SELECT * FROM words").fetchall() == [("moi",)]
    writer.close()
    reader.close()


def test_a_connection_of_sqlalchemy_commits_what_was_run_on_it(tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'words.db'}")
    with engine.connect() as connection:
        statements(connection).execute("CREATE TABLE words (word TEXT)")
        statements(connection).execute("INSERT INTO words VALUES (:word)", word="moi")
        connection.commit()

    with engine.connect() as connection:
        assert statements(connection).dialect is Dialect.SQLITE
        assert statements(connection).rows("SELECT word FROM words") == [{"word": "moi"}]
    engine.dispose()


def test_a_session_of_sqlalchemy_rolls_back_what_was_run_in_it(tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'words.db'}")
    with engine.begin() as connection:
        statements(connection).execute("CREATE TABLE words (word TEXT)")

    with Session(engine) as session:
        statements(session).execute("INSERT INTO words VALUES (:word)", word="moi")
        session.rollback()

    with Session(engine) as session:
        assert statements(session).rows("SELECT word FROM words") == []
    engine.dispose()


def test_what_is_no_connection_is_refused_with_what_would_be_one() -> None:
    with pytest.raises(ConfigError, match="PEP 249"):
        statements(object())


def test_a_connection_of_an_unknown_module_is_refused() -> None:
    with pytest.raises(ConfigError, match="paramstyle"):
        statements(Connection())


def test_an_unknown_database_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match="sqlite, postgresql, mysql"):
        dialect_named("oracle")


@pytest.mark.parametrize("name", ["", "a b", "a;DROP TABLE x", "a.b.c", "1a", 'a"'])
def test_a_table_s_name_is_plain_words(name: str) -> None:
    with pytest.raises(ConfigError):
        checked_table(name)


def test_a_table_s_name_may_have_a_schema() -> None:
    assert checked_table("shop.outbox_2") == "shop.outbox_2"
