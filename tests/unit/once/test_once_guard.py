"""The work of a message is done once, however often the message comes."""

import inspect
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from once_stage import received
from redis_server import running_redis

from pyromq import ConfigError, ConsumeResult, ReceivedMessage
from pyromq.once import Began, BeingProcessed, NoBusinessKey, Once, RedisTokens, SqliteTokens, once


@pytest.fixture
def tokens(tmp_path: Path) -> SqliteTokens:
    return SqliteTokens(tmp_path / "shop.db")


def first_key(message: ReceivedMessage) -> str:
    return message.keys[0]


@pytest.mark.row("ID-02", "ID-03")
def test_a_duplicate_by_its_business_key_succeeds_without_a_call(tokens: SqliteTokens) -> None:
    calls = []

    @once(tokens, key=first_key)
    def handle(message: ReceivedMessage) -> None:
        calls.append(message.message_id)

    handle(received("42", message_id="A"))
    again = handle(received("42", message_id="B"))

    assert calls == ["A"]
    assert again is ConsumeResult.SUCCESS


@pytest.mark.row("ID-03")
def test_messages_of_different_business_are_all_handled(tokens: SqliteTokens) -> None:
    calls = []

    @once(tokens, key=first_key)
    def handle(message: ReceivedMessage) -> None:
        calls.append(message.keys)

    handle(received("42", message_id="A"))
    handle(received("43", message_id="A"))

    assert calls == [["42"], ["43"]]


@pytest.mark.row("ID-02")
def test_a_message_that_another_works_at_comes_again_later(tokens: SqliteTokens) -> None:
    tokens.begin("42", "another")

    @once(tokens, key=first_key)
    def handle(_message: ReceivedMessage) -> None:
        raise AssertionError

    assert handle(received("42")) is ConsumeResult.RECONSUME_LATER


@pytest.mark.row("ID-02")
def test_work_that_raised_is_tried_again(tokens: SqliteTokens) -> None:
    calls = []

    @once(tokens, key=first_key)
    def handle(message: ReceivedMessage) -> None:
        calls.append(message)
        if len(calls) == 1:
            raise OSError("the printer is out of paper")

    with pytest.raises(OSError, match="paper"):
        handle(received("42"))
    handle(received("42"))

    assert len(calls) == 2


@pytest.mark.parametrize("answer", [False, ConsumeResult.RECONSUME_LATER, ConsumeResult.ROLLBACK])
def test_work_that_says_later_is_tried_again(tokens: SqliteTokens, answer: object) -> None:
    @once(tokens, key=first_key)
    def handle(_message: ReceivedMessage) -> object:
        return answer

    assert handle(received("42")) is answer
    assert tokens.begin("42", "another") is Began.MINE


@pytest.mark.parametrize("answer", [None, True, ConsumeResult.SUCCESS, ConsumeResult.COMMIT])
def test_work_that_succeeds_is_done(tokens: SqliteTokens, answer: object) -> None:
    @once(tokens, key=first_key)
    def handle(_message: ReceivedMessage) -> object:
        return answer

    assert handle(received("42")) is answer
    assert tokens.begin("42", "another") is Began.DONE


def test_a_listener_that_takes_a_delivery_still_shows_and_gets_it(tokens: SqliteTokens) -> None:
    @once(tokens, key=first_key)
    def handle(_message: ReceivedMessage, delivery: str) -> None:
        assert delivery == "the delivery"

    handle(received("42"), "the delivery")

    assert list(inspect.signature(handle).parameters) == ["_message", "delivery"]
    assert handle.__name__ == "handle"


async def test_a_coroutine_is_guarded_alike(tokens: SqliteTokens) -> None:
    calls = []

    @once(tokens, key=first_key)
    async def handle(message: ReceivedMessage) -> None:
        calls.append(message.message_id)
        if len(calls) == 1:
            raise OSError("no paper")

    assert inspect.iscoroutinefunction(handle)
    with pytest.raises(OSError, match="paper"):
        await handle(received("42", message_id="A"))
    await handle(received("42", message_id="B"))
    again = await handle(received("42", message_id="C"))

    assert calls == ["A", "B"]
    assert again is ConsumeResult.SUCCESS


async def test_a_coroutine_leaves_to_others_what_they_work_at(tokens: SqliteTokens) -> None:
    tokens.begin("42", "another")

    @once(tokens, key=first_key)
    async def handle(_message: ReceivedMessage) -> None:
        raise AssertionError

    assert await handle(received("42")) is ConsumeResult.RECONSUME_LATER


@pytest.mark.parametrize("key_of", [first_key, lambda _message: ""])
def test_a_message_without_a_business_key_says_what_to_do(tokens: SqliteTokens, key_of: object) -> None:
    @once(tokens, key=key_of)  # type: ignore[arg-type]
    def handle(_message: ReceivedMessage) -> None:
        raise AssertionError

    with pytest.raises(NoBusinessKey, match="keys="):
        handle(received(""))


def test_a_block_is_entered_by_the_first_only(tokens: SqliteTokens) -> None:
    guard = Once(tokens, key=first_key)

    with guard.guard(received("42")) as is_new:
        assert is_new
        with pytest.raises(BeingProcessed, match="42"), guard.guard(received("42")):
            pass
    with guard.guard(received("42")) as is_new:
        assert not is_new


def test_a_block_that_raises_gives_the_token_back(tokens: SqliteTokens) -> None:
    guard = Once(tokens, key=first_key)

    with pytest.raises(OSError, match="paper"), guard.guard(received("42")):
        raise OSError("no paper")

    assert tokens.begin("42", "another") is Began.MINE


@pytest.fixture
def connection(tmp_path: Path, tokens: SqliteTokens) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE bills (number TEXT)")
        yield connection


def bill(guard: Once, message: ReceivedMessage, connection: sqlite3.Connection) -> None:
    with guard.guard(message, connection) as is_new:
        if is_new:
            connection.execute("INSERT INTO bills VALUES (?)", (message.keys[0],))


@pytest.mark.row("ID-02")
def test_token_and_work_are_committed_together(tokens: SqliteTokens, connection: sqlite3.Connection) -> None:
    guard = Once(tokens, key=first_key)

    bill(guard, received("42"), connection)
    connection.commit()
    bill(guard, received("42"), connection)
    connection.commit()

    assert connection.execute("SELECT number FROM bills").fetchall() == [("42",)]


@pytest.mark.row("ID-02")
def test_token_and_work_are_undone_together(tokens: SqliteTokens, connection: sqlite3.Connection) -> None:
    guard = Once(tokens, key=first_key)

    bill(guard, received("42"), connection)
    connection.rollback()
    bill(guard, received("42"), connection)
    connection.commit()

    assert connection.execute("SELECT number FROM bills").fetchall() == [("42",)]


@pytest.mark.row("ID-02")
def test_a_cache_in_front_spares_the_database_and_its_loss_does_no_harm(
    tokens: SqliteTokens, connection: sqlite3.Connection
) -> None:
    recorded = Once(tokens, key=first_key)
    with running_redis() as port, closing(redis.Redis(port=port)) as client:
        calls = []

        @once(RedisTokens(client), key=first_key)
        def handle(message: ReceivedMessage) -> None:
            calls.append(message)
            bill(recorded, message, connection)
            connection.commit()

        handle(received("42"))
        handle(received("42"))
        assert len(calls) == 1

        client.flushall()
        handle(received("42"))

    assert len(calls) == 2
    assert connection.execute("SELECT number FROM bills").fetchall() == [("42",)]


def test_tokens_that_are_not_in_the_application_s_database_cannot_be_recorded_there(
    connection: sqlite3.Connection,
) -> None:
    # No server is asked.
    with closing(redis.Redis(port=1)) as client:
        guard = Once(RedisTokens(client), key=first_key)

        with pytest.raises(ConfigError, match="DbTokens"), guard.guard(received("42"), connection):
            pass
