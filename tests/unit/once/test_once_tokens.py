"""Stores of tokens keep their word, whichever database they are in."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from redis_server import running_redis

from pyromq import ConfigError
from pyromq.once import Began, DbTokens, RedisTokens, SqliteTokens, Tokens
from pyromq.once.db_tokens import DEFAULT_TABLE
from pyromq.once.tokens import KEY_CHARACTERS_MAX
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import eventually

MakeTokens = Callable[[str], Tokens]


@pytest.fixture(scope="module")
def redis_port() -> Iterator[int]:
    with running_redis() as port:
        yield port


@pytest.fixture
def redis_client(redis_port: int) -> Iterator[redis.Redis]:
    """A client of an empty server."""
    with closing(redis.Redis(port=redis_port)) as client:
        client.flushall()
        yield client


@pytest.fixture(params=["sqlite", "database", "redis"])
def new_tokens(request: pytest.FixtureRequest, tmp_path: Path) -> MakeTokens:
    """Return what makes stores on the same database, each of a scope of its own."""
    path = tmp_path / "tokens.db"
    if request.param == "sqlite":
        return lambda scope: SqliteTokens(path, scope=scope)
    if request.param == "database":
        tokens = DbTokens(lambda: sqlite3.connect(path), "shop_tokens")
        with closing(sqlite3.connect(path)) as connection:
            tokens.create_table(connection)
            connection.commit()
        return lambda scope: DbTokens(lambda: sqlite3.connect(path), "shop_tokens", scope=scope)
    client = request.getfixturevalue("redis_client")
    return lambda scope: RedisTokens(client, scope=scope)


@pytest.fixture
def tokens(new_tokens: MakeTokens) -> Tokens:
    return new_tokens("")


@pytest.mark.row("ID-02")
def test_the_first_who_begins_has_the_token(tokens: Tokens) -> None:
    assert tokens.begin("order-42", "me") is Began.MINE


@pytest.mark.row("ID-02")
def test_a_token_that_another_holds_is_busy(tokens: Tokens) -> None:
    tokens.begin("order-42", "me")

    assert tokens.begin("order-42", "you") is Began.BUSY


@pytest.mark.row("ID-02")
def test_finished_work_is_done_for_everybody(tokens: Tokens) -> None:
    tokens.begin("order-42", "me")

    tokens.finish("order-42", "me")

    assert tokens.begin("order-42", "you") is Began.DONE


def test_a_token_that_was_given_back_can_be_taken(tokens: Tokens) -> None:
    tokens.begin("order-42", "me")

    tokens.forget("order-42", "me")

    assert tokens.begin("order-42", "you") is Began.MINE


def test_only_its_holder_can_give_a_token_back(tokens: Tokens) -> None:
    tokens.begin("order-42", "me")

    tokens.forget("order-42", "you")

    assert tokens.begin("order-42", "you") is Began.BUSY


def test_only_its_holder_can_finish(tokens: Tokens) -> None:
    tokens.begin("order-42", "me")

    tokens.finish("order-42", "you")

    assert tokens.begin("order-42", "you") is Began.BUSY


def test_keys_do_not_touch_each_other(tokens: Tokens) -> None:
    tokens.begin("order-42", "me")

    assert tokens.begin("order-43", "me") is Began.MINE


def test_groups_with_scopes_of_their_own_each_do_the_work(new_tokens: MakeTokens) -> None:
    billing, shipping = new_tokens("billing"), new_tokens("shipping")
    billing.begin("order-42", "me")
    billing.finish("order-42", "me")

    assert shipping.begin("order-42", "me") is Began.MINE


def test_a_key_of_any_length_is_one_key(tokens: Tokens) -> None:
    long = "k" * KEY_CHARACTERS_MAX
    tokens.begin(long + "1", "me")

    assert tokens.begin(long + "1", "you") is Began.BUSY
    assert tokens.begin(long + "2", "you") is Began.MINE


@pytest.mark.row("ID-02")
def test_of_many_who_begin_at_once_one_has_the_token(tokens: Tokens) -> None:
    began: list[Began] = []
    barrier = threading.Barrier(8)

    def begin(owner: str) -> None:
        barrier.wait(60)
        began.append(tokens.begin("order-42", owner))

    threads = [threading.Thread(target=begin, args=[f"worker-{number}"]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(outcome.name for outcome in began) == ["BUSY"] * 7 + ["MINE"]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def timed(path: Path, clock: ManualClock) -> SqliteTokens:
    return SqliteTokens(path, lease=timedelta(minutes=5), keep=timedelta(hours=1), clock=clock)


def test_the_token_of_one_who_died_is_free_when_the_lease_is_over(tmp_path: Path, clock: ManualClock) -> None:
    tokens = timed(tmp_path / "tokens.db", clock)
    tokens.begin("order-42", "me")

    clock.advance(299_999)
    assert tokens.begin("order-42", "you") is Began.BUSY
    clock.advance(1)
    assert tokens.begin("order-42", "you") is Began.MINE


def test_one_who_comes_back_after_the_lease_does_not_disturb_the_new_holder(
    tmp_path: Path, clock: ManualClock
) -> None:
    tokens = timed(tmp_path / "tokens.db", clock)
    tokens.begin("order-42", "me")
    clock.advance(300_000)
    tokens.begin("order-42", "you")

    tokens.forget("order-42", "me")
    tokens.finish("order-42", "me")

    assert tokens.begin("order-42", "them") is Began.BUSY


def test_done_is_forgotten_after_its_time(tmp_path: Path, clock: ManualClock) -> None:
    tokens = timed(tmp_path / "tokens.db", clock)
    tokens.begin("order-42", "me")
    tokens.finish("order-42", "me")

    clock.advance(3_599_999)
    assert tokens.begin("order-42", "you") is Began.DONE
    clock.advance(1)
    assert tokens.begin("order-42", "you") is Began.MINE


def test_tokens_whose_time_is_over_are_removed_on_the_way(tmp_path: Path, clock: ManualClock) -> None:
    tokens = timed(tmp_path / "tokens.db", clock)
    for number in range(3):
        tokens.begin(f"order-{number}", "me")
        tokens.finish(f"order-{number}", "me")

    clock.advance(3_600_000)
    tokens.begin("order-42", "me")

    with closing(sqlite3.connect(tmp_path / "tokens.db")) as connection:
        assert connection.execute(f"SELECT count(*) FROM {DEFAULT_TABLE}").fetchone() == (1,)


@pytest.mark.row("ID-02")
def test_of_many_who_begin_at_once_in_redis_one_has_the_token(redis_client: redis.Redis) -> None:
    tokens, barrier = RedisTokens(redis_client), threading.Barrier(8)

    def begin(owner: str) -> Began:
        barrier.wait(60)
        return tokens.begin("order-42", owner)

    with ThreadPoolExecutor(8) as pool:
        began = list(pool.map(begin, [f"worker-{number}" for number in range(8)]))

    assert sorted(outcome.name for outcome in began) == ["BUSY"] * 7 + ["MINE"]


@pytest.mark.row("ID-02")
def test_a_lease_in_redis_ends_by_the_server_s_clock(redis_client: redis.Redis) -> None:
    tokens = RedisTokens(redis_client, lease=timedelta(milliseconds=50), keep=timedelta(hours=1))
    tokens.begin("order-42", "who died")

    eventually(lambda: tokens.begin("order-42", "me") is Began.MINE)
    tokens.finish("order-42", "me")
    tokens.forget("order-42", "who died")

    assert tokens.begin("order-42", "you") is Began.DONE
    (name,) = redis_client.keys()
    assert 3_500_000 < redis_client.pttl(name) <= 3_600_000


def test_work_finished_after_its_lease_is_done_unless_another_began(redis_client: redis.Redis) -> None:
    tokens = RedisTokens(redis_client)

    tokens.finish("order-42", "me")

    assert tokens.begin("order-42", "you") is Began.DONE


def test_a_redis_client_that_decodes_works_as_well(redis_client: redis.Redis, redis_port: int) -> None:
    with closing(redis.Redis(port=redis_port, decode_responses=True)) as client:
        tokens = RedisTokens(client)
        tokens.begin("order-42", "me")
        tokens.finish("order-42", "me")

        assert tokens.begin("order-42", "you") is Began.DONE


def test_tokens_in_memory_are_refused_because_they_would_be_gone_at_once() -> None:
    with pytest.raises(ConfigError, match="path of a file"):
        SqliteTokens(":memory:")


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql"])
def test_a_migration_gets_the_statement_of_its_database(dialect: str) -> None:
    ddl = DbTokens(lambda: sqlite3.connect(":memory:")).ddl(dialect)

    assert ("utf8mb4_bin" in ddl) == (dialect == "mysql")
