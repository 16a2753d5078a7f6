"""Tokens in a real PostgreSQL, on connections of their own and in the application's transaction."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import sqlalchemy
from once_stage import received
from postgresql import PostgreSQL, running_postgresql
from sqlalchemy.orm import Session

from pyromq import ConsumeResult, ReceivedMessage
from pyromq.once import Began, DbTokens, Once, once


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with running_postgresql() as server:
        yield server


@pytest.fixture
def address(server: PostgreSQL) -> str:
    address = server.database()
    with psycopg.connect(address) as connection:
        connection.execute("CREATE TABLE bills (number TEXT)")
        DbTokens(lambda: psycopg.connect(address)).create_table(connection)
    return address


@pytest.fixture
def tokens(address: str) -> DbTokens:
    return DbTokens(lambda: psycopg.connect(address))


def first_key(message: ReceivedMessage) -> str:
    return message.keys[0]


def bills(address: str) -> list[str]:
    with psycopg.connect(address) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM bills ORDER BY number")]


@pytest.mark.row("ID-02", "ID-03")
def test_a_duplicate_succeeds_without_a_call(tokens: DbTokens) -> None:
    calls = []

    @once(tokens, key=first_key)
    def handle(message: ReceivedMessage) -> None:
        calls.append(message.message_id)

    handle(received("42", message_id="A"))

    assert handle(received("42", message_id="B")) is ConsumeResult.SUCCESS
    assert calls == ["A"]


@pytest.mark.row("ID-02")
def test_of_many_who_begin_at_once_one_has_the_token(tokens: DbTokens) -> None:
    barrier = threading.Barrier(8)

    def begin(owner: str) -> Began:
        barrier.wait(10)
        return tokens.begin("order-42", owner)

    with ThreadPoolExecutor(8) as pool:
        began = list(pool.map(begin, [f"worker-{number}" for number in range(8)]))

    assert sorted(outcome.name for outcome in began) == ["BUSY"] * 7 + ["MINE"]


@pytest.mark.row("ID-02")
def test_of_many_transactions_with_one_key_one_does_the_work(address: str, tokens: DbTokens) -> None:
    guard = Once(tokens, key=first_key)
    barrier = threading.Barrier(6)

    def bill(_worker: int) -> None:
        with psycopg.connect(address) as connection:
            barrier.wait(10)
            with guard.guard(received("42"), connection) as is_new:
                if is_new:
                    connection.execute("INSERT INTO bills VALUES ('42')")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(bill, range(6)))

    assert bills(address) == ["42"]


@pytest.mark.row("ID-02")
def test_who_waits_for_a_transaction_that_is_undone_does_the_work(address: str, tokens: DbTokens) -> None:
    guard = Once(tokens, key=first_key)
    with psycopg.connect(address) as first, ThreadPoolExecutor(1) as pool:
        assert tokens.record(first, "42", "first")

        def bill() -> bool:
            with (
                psycopg.connect(address) as second,
                guard.guard(received("42"), second) as is_new,
            ):
                second.execute("INSERT INTO bills VALUES ('42')")
                return is_new

        waiting = pool.submit(bill)
        first.rollback()

        assert waiting.result(30) is True
    assert bills(address) == ["42"]


def test_a_session_of_sqlalchemy_commits_work_and_token_together(address: str, tokens: DbTokens) -> None:
    engine = sqlalchemy.create_engine(address.replace("postgresql:", "postgresql+psycopg:"))
    guard = Once(tokens, key=first_key)

    for ends in (Session.rollback, Session.commit, Session.commit):
        with Session(engine) as session, guard.guard(received("42"), session) as is_new:
            if is_new:
                session.execute(sqlalchemy.text("INSERT INTO bills VALUES ('42')"))
            ends(session)

    assert bills(address) == ["42"]
    engine.dispose()
