"""The outbox on a real PostgreSQL and a real MariaDB: rows are locked while they are sent."""

import threading
from datetime import timedelta
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy
from databases import Database, NewDatabase, new_database, run
from outbox_stage import SendsToMemory, SendsToMemoryAwaitably
from psycopg.rows import dict_row
from sqlalchemy.orm import Session

from pyromq import ConfigError, Message, RequestTimeout
from pyromq.outbox import Outbox, Relay, RelaySettings, aio
from pyromq.testing.manual_clock import ManualClock

AWAY = RequestTimeout("no answer within 3 s")


__all__ = ["new_database"]


class ServerShop:
    """A shop with a table of orders and an outbox, in a database of its own."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = ManualClock()
        self.outbox = Outbox(database.dialect, clock=self.clock)
        with database.transaction() as connection:
            run(connection, "CREATE TABLE orders (number INTEGER PRIMARY KEY)")
            self.outbox.create_table(connection)

    def connect(self) -> Any:
        return self.database.connect()

    def order(self, number: int, *, group: str | None = None) -> str:
        with self.database.transaction() as connection:
            run(connection, "INSERT INTO orders VALUES (%s)", number)
            return self.outbox.add(connection, Message("orders", b"order %d" % number), group=group)

    def relay(self, producer: SendsToMemory, **settings: int | bool) -> Relay:
        return Relay(self.connect, producer, RelaySettings(**settings), clock=self.clock)

    def rows(self, columns: str) -> list[tuple[object, ...]]:
        return self.database.rows(f"SELECT {columns} FROM pyromq_outbox ORDER BY id")


@pytest.fixture
def shop(new_database: NewDatabase) -> ServerShop:
    return ServerShop(new_database())


@pytest.fixture
def producer() -> SendsToMemory:
    return SendsToMemory()


@pytest.mark.row("ID-01")
def test_what_was_committed_is_sent_and_what_was_rolled_back_is_not(
    shop: ServerShop, producer: SendsToMemory
) -> None:
    message_id = shop.order(1)
    with shop.database.transaction() as connection:
        shop.outbox.add(connection, Message("orders", b"undone"))
        connection.rollback()

    assert shop.relay(producer).run_once().sent == 1

    assert producer.ids == [message_id]
    assert shop.rows("id") == []


def test_making_the_table_again_changes_nothing(shop: ServerShop) -> None:
    shop.order(1)

    with shop.database.transaction() as connection:
        shop.outbox.create_table(connection)

    assert len(shop.rows("id")) == 1


@pytest.mark.row("ID-01")
def test_a_failure_is_written_down_reported_and_mended(shop: ServerShop, producer: SendsToMemory) -> None:
    message_id = shop.order(1)
    relay = shop.relay(producer)
    producer.failing = {"orders": AWAY}
    relay.run_once()
    (stuck,) = relay.stuck(timedelta(0))

    producer.failing = {}
    assert relay.run_once().taken == 0
    shop.clock.advance(1_000)
    relay.run_once()

    assert (stuck.message_id, stuck.attempts) == (message_id, 1)
    assert stuck.last_error == "RequestTimeout: no answer within 3 s"
    assert producer.ids == [message_id]


@pytest.mark.row("ID-01")
def test_a_row_that_one_relay_sends_is_passed_over_by_another_which_goes_on_with_the_rest(
    shop: ServerShop, producer: SendsToMemory
) -> None:
    for number in range(3):
        shop.order(number)
    other = SendsToMemory()
    producer.before_send = lambda _message: shop.relay(other).run_once() and None

    shop.relay(producer, batch_rows=1).run_once()

    assert producer.bodies == [b"order 0"]
    assert other.bodies == [b"order 1", b"order 2"]


def test_a_group_that_one_relay_works_at_is_not_overtaken(shop: ServerShop, producer: SendsToMemory) -> None:
    shop.order(1, group="customer-7")
    shop.order(2, group="customer-7")
    other = SendsToMemory()
    producer.before_send = lambda _message: shop.relay(other).run_once() and None

    shop.relay(producer).run_once()

    assert other.messages == []
    assert producer.bodies == [b"order 1"]


def test_messages_can_be_added_while_rows_are_being_sent(shop: ServerShop, producer: SendsToMemory) -> None:
    shop.order(1)
    relay = shop.relay(producer)

    def order_once_more(message: Message) -> None:
        if message.body == b"order 1":
            shop.order(2)

    producer.before_send = order_once_more

    relay.run_once()
    relay.run_once()

    assert producer.bodies == [b"order 1", b"order 2"]


@pytest.mark.row("ID-01")
def test_rows_of_a_relay_that_died_are_free_at_once(shop: ServerShop, producer: SendsToMemory) -> None:
    class Died(BaseException):
        pass

    def die(_message: object) -> None:
        raise Died

    message_id = shop.order(1)
    dying = SendsToMemory()
    dying.before_send = die
    with pytest.raises(Died):
        shop.relay(dying).run_once()

    shop.relay(producer).run_once()

    assert producer.ids == [message_id]


@pytest.mark.row("ID-01")
def test_four_relays_at_once_send_each_message_once_and_each_group_in_order(shop: ServerShop) -> None:
    for number in range(40):
        shop.order(number, group=f"customer-{number % 5}" if number % 2 else None)
    producer = SendsToMemory()
    relays = [shop.relay(producer, batch_rows=3, poll_ms=10) for _ in range(4)]
    lock = threading.Lock()
    under_way: set[str] = set()
    overlaps = []

    def watch(message: Message) -> None:
        with lock:
            message_id = message.properties["UNIQ_KEY"]
            overlaps.extend([message_id] if message_id in under_way else [])
            under_way.add(message_id)
            if len(under_way) == 40:
                for relay in relays:
                    relay.stop()

    producer.before_send = watch
    threads = [threading.Thread(target=relay.run) for relay in relays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()

    assert overlaps == []
    numbers = [int(body.split()[1]) for body in producer.bodies]
    assert sorted(numbers) == list(range(40))
    for group in range(5):
        ours = [number for number in numbers if number % 2 and number % 5 == group]
        assert ours == sorted(ours)
        assert ours


def test_rows_are_kept_when_told_to(shop: ServerShop, producer: SendsToMemory) -> None:
    shop.order(1)
    relay = shop.relay(producer, keep_sent=True)
    relay.run_once()
    shop.clock.advance(1)

    assert relay.run_once().taken == 0
    assert relay.forget_sent(timedelta(0)) == 1


def test_an_autocommit_connection_is_refused_by_the_relay(shop: ServerShop, producer: SendsToMemory) -> None:
    def connect() -> Any:
        connection = shop.connect()
        turn_on = (
            connection.set_autocommit if shop.database.dialect == "postgresql" else connection.autocommit
        )
        turn_on(True)
        return connection

    with pytest.raises(ConfigError, match="autocommit"):
        Relay(connect, producer).run_once()


def test_a_message_can_be_added_in_a_transaction_that_an_autocommit_connection_began(
    shop: ServerShop, producer: SendsToMemory
) -> None:
    connection = shop.connect()
    if isinstance(connection, psycopg.Connection):
        connection.autocommit = True
        connection.row_factory = dict_row
        with connection, connection.transaction():
            shop.outbox.add(connection, Message("orders", b"in a block"))
    else:
        connection.autocommit(True)
        connection.cursorclass = pymysql.cursors.DictCursor
        with connection:
            connection.begin()
            shop.outbox.add(connection, Message("orders", b"in a block"))
            connection.commit()

    shop.relay(producer).run_once()

    assert producer.bodies == [b"in a block"]


@pytest.mark.row("ID-01")
def test_a_body_of_any_bytes_and_text_of_any_letters_come_out_as_they_went_in(
    shop: ServerShop, producer: SendsToMemory
) -> None:
    body = bytes(range(256)) * 1_000
    message = Message("orders", body, tags="über", keys=["中文", "🐍"], properties={"note": "a'b\\c%s"})
    with shop.database.transaction() as connection:
        shop.outbox.add(connection, message, group="Größe 🐍")

    shop.relay(producer).run_once()

    (sent,) = producer.messages
    assert (sent.body, sent.tags, sent.keys) == (body, "über", ["中文", "🐍"])
    assert sent.properties["note"] == "a'b\\c%s"


def test_groups_that_differ_by_case_or_accent_do_not_wait_for_each_other(
    shop: ServerShop, producer: SendsToMemory
) -> None:
    for number, group in enumerate(("muller", "Muller", "müller")):
        shop.order(number, group=group)

    assert shop.relay(producer).run_once().sent == 3


def test_sqlalchemy_serves_both_ends(shop: ServerShop, producer: SendsToMemory) -> None:
    engine = sqlalchemy.create_engine(shop.database.url)
    with Session(engine) as session:
        session.execute(sqlalchemy.text("INSERT INTO orders VALUES (1)"))
        shop.outbox.add(session, Message("orders", b"of a session"))
        session.commit()

    report = Relay(engine.connect, producer, clock=shop.clock).run_once()

    assert report.sent == 1
    assert producer.bodies == [b"of a session"]
    engine.dispose()


async def test_the_awaitable_relay_sends_a_round_at_once(shop: ServerShop) -> None:
    ids = [shop.order(number) for number in range(5)]
    producer = SendsToMemoryAwaitably()

    report = await aio.Relay(shop.connect, producer, clock=shop.clock).run_once()

    assert report.sent == 5
    assert producer.ids == ids
    assert shop.rows("id") == []
