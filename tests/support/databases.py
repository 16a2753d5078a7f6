"""Real database servers behind one face: PostgreSQL by psycopg, MariaDB by PyMySQL."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from mariadb import running_mariadb
from postgresql import running_postgresql


@dataclass(frozen=True)
class Database:
    """A new, empty database. Both drivers mark values by %s."""

    dialect: str
    #: Opens a connection; PyMySQL's begins, as psycopg's does, without autocommit.
    connect: Callable[[], Any]
    #: For SQLAlchemy.
    url: str

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Give a connection; commit at the end, or roll back after an error."""
        with closing(self.connect()) as connection:
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.transaction() as connection, closing(connection.cursor()) as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())


def run(connection: Any, statement: str, *values: object) -> None:
    """Run a statement on a connection, in the transaction that it is in."""
    with closing(connection.cursor()) as cursor:
        cursor.execute(statement, values)


NewDatabase = Callable[[], Database]
SERVERS = ("postgresql", "mariadb")


@contextmanager
def running(kind: str) -> Iterator[NewDatabase]:
    """Start a server for the block; each call of what it gives makes a database."""
    if kind == "postgresql":
        with running_postgresql() as postgresql:

            def new_postgresql() -> Database:
                address = postgresql.database()
                url = address.replace("postgresql:", "postgresql+psycopg:")
                return Database("postgresql", lambda: psycopg.connect(address), url)

            yield new_postgresql
        return
    with running_mariadb() as mariadb:

        def new_mariadb() -> Database:
            name = mariadb.database()
            url = f"mysql+pymysql://tester@127.0.0.1:{mariadb.port}/{name}"
            return Database("mysql", lambda: mariadb.connect(name), url)

        yield new_mariadb


@pytest.fixture(scope="module", params=SERVERS)
def new_database(request: pytest.FixtureRequest) -> Iterator[NewDatabase]:
    """Each kind of server in turn, for a whole module."""
    with running(request.param) as new_database:
        yield new_database
