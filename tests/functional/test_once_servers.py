"""Tokens in real servers, on connections of their own and in the application's transaction."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import sqlalchemy
from databases import Database, NewDatabase, new_database, run
from once_stage import received
from sqlalchemy.orm import Session

from pyromq import ConsumeResult, ReceivedMessage
from pyromq.once import Began, DbTokens, Once, once
from pyromq.testing.manual_clock import ManualClock

__all__ = ["new_database"]


@pytest.fixture
def database(new_database: NewDatabase) -> Database:
    database = new_database()
    with database.transaction() as connection:
        run(connection, "CREATE TABLE bills (number VARCHAR(40))")
        DbTokens(database.connect).create_table(connection)
    return database


@pytest.fixture
def tokens(database: Database) -> DbTokens:
    return DbTokens(database.connect)


def first_key(message: ReceivedMessage) -> str:
    return message.keys[0]


def bills(database: Database) -> list[str]:
    return [number for (number,) in database.rows("SELECT number FROM bills ORDER BY number")]


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
        barrier.wait(60)
        return tokens.begin("order-42", owner)

    with ThreadPoolExecutor(8) as pool:
        began = list(pool.map(begin, [f"worker-{number}" for number in range(8)]))

    assert sorted(outcome.name for outcome in began) == ["BUSY"] * 7 + ["MINE"]


@pytest.mark.row("ID-02")
def test_of_many_transactions_with_one_key_one_does_the_work(database: Database, tokens: DbTokens) -> None:
    guard = Once(tokens, key=first_key)
    barrier = threading.Barrier(6)

    def bill(_worker: int) -> None:
        with database.transaction() as connection:
            barrier.wait(60)
            with guard.guard(received("42"), connection) as is_new:
                if is_new:
                    run(connection, "INSERT INTO bills VALUES ('42')")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(bill, range(6)))

    assert bills(database) == ["42"]


@pytest.mark.row("ID-02")
def test_who_waits_for_a_transaction_that_is_undone_does_the_work(
    database: Database, tokens: DbTokens
) -> None:
    guard = Once(tokens, key=first_key)
    with database.transaction() as first, ThreadPoolExecutor(1) as pool:
        assert tokens.record(first, "42", "first")

        def bill() -> bool:
            with (
                database.transaction() as second,
                guard.guard(received("42"), second) as is_new,
            ):
                run(second, "INSERT INTO bills VALUES ('42')")
                return is_new

        waiting = pool.submit(bill)
        first.rollback()

        assert waiting.result(30) is True
    assert bills(database) == ["42"]


def test_a_session_of_sqlalchemy_commits_work_and_token_together(
    database: Database, tokens: DbTokens
) -> None:
    engine = sqlalchemy.create_engine(database.url)
    guard = Once(tokens, key=first_key)

    for ends in (Session.rollback, Session.commit, Session.commit):
        with Session(engine) as session, guard.guard(received("42"), session) as is_new:
            if is_new:
                session.execute(sqlalchemy.text("INSERT INTO bills VALUES ('42')"))
            ends(session)

    assert bills(database) == ["42"]
    engine.dispose()


@pytest.mark.row("ID-02")
def test_a_token_is_busy_then_free_then_done(database: Database) -> None:
    clock = ManualClock()
    tokens = DbTokens(database.connect, lease=timedelta(minutes=1), keep=timedelta(hours=1), clock=clock)

    assert tokens.begin("order-42", "who died") is Began.MINE
    assert tokens.begin("order-42", "me") is Began.BUSY
    clock.advance(60_000)
    assert tokens.begin("order-42", "me") is Began.MINE
    tokens.forget("order-42", "who died")
    tokens.finish("order-42", "me")
    assert tokens.begin("order-42", "you") is Began.DONE
    clock.advance(3_600_000)
    assert tokens.begin("order-42", "you") is Began.MINE


def test_keys_that_differ_by_case_or_accent_are_different(tokens: DbTokens) -> None:
    assert {tokens.begin(key, "me") for key in ("muller", "Muller", "müller", "🐍")} == {Began.MINE}


@pytest.mark.row("ID-02")
def test_expired_tokens_are_removed_and_those_in_use_are_not_waited_for(database: Database) -> None:
    clock = ManualClock()
    tokens = DbTokens(database.connect, keep=timedelta(hours=1), clock=clock)
    for number in range(5):
        tokens.begin(f"order-{number}", "me")
        tokens.finish(f"order-{number}", "me")
    clock.advance(3_600_000)

    with database.transaction() as connection:
        assert tokens.record(connection, "order-0", "me")
        assert tokens.begin("order-5", "me") is Began.MINE

    left = database.rows("SELECT token_key FROM pyromq_once ORDER BY token_key")
    assert [key for (key,) in left] == ["order-0", "order-5"]
