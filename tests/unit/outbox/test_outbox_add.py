"""A message is in the outbox if and only if its transaction was committed."""

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from outbox_stage import SendsToMemory, Shop
from sqlalchemy.orm import Session

from pyromq import ConfigError, Message, MessageIllegal
from pyromq.outbox import Outbox


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.row("ID-01")
def test_a_message_is_there_when_the_transaction_is_committed(shop: Shop) -> None:
    message_id = shop.order(1)

    assert shop.rows("message_id, topic, attempts, sent_ms") == [(message_id, "orders", 0, None)]


@pytest.mark.row("ID-01")
def test_a_message_is_not_there_when_the_transaction_is_rolled_back(shop: Shop) -> None:
    shop.order(1)

    with closing(shop.connect()) as connection:
        shop.outbox.add(connection, Message("orders", b"undone"))
        connection.rollback()

    assert len(shop.rows("id")) == 1


def test_a_message_comes_out_as_it_went_in(shop: Shop) -> None:
    message = Message(
        "orders", b"\x00\xff", tags="new", keys=["a", "b"], properties={"who": "me"}, flag=7, delay_level=3
    )
    producer = SendsToMemory()
    with closing(shop.connect()) as connection, connection:
        message_id = shop.outbox.add(connection, message)

    shop.relay(producer).run_once()

    (sent,) = producer.messages
    assert sent.properties == {"who": "me", "UNIQ_KEY": message_id}
    sent.properties = {"who": "me"}
    assert sent == message


@pytest.mark.parametrize(
    ("when", "then"),
    [
        ({"delay": timedelta(minutes=1.5)}, {"delay": 90}),
        ({"delay": 0.5}, {"delay": 0.5}),
        ({"deliver_at": datetime(2027, 1, 1, tzinfo=UTC)}, {"deliver_at": 1_798_761_600_000}),
        ({"deliver_at": 1_798_761_600_000}, {"deliver_at": 1_798_761_600_000}),
    ],
)
def test_a_message_keeps_its_time(shop: Shop, when: dict[str, Any], then: dict[str, Any]) -> None:
    producer = SendsToMemory()
    with closing(shop.connect()) as connection, connection:
        shop.outbox.add(connection, Message("orders", b"x", **when))

    shop.relay(producer).run_once()

    (sent,) = producer.messages
    assert {name: getattr(sent, name) for name in then} == then


def test_a_row_names_no_field_that_its_message_has_not(shop: Shop) -> None:
    shop.order(1)

    ((attributes,),) = shop.rows("attributes")
    assert not {"delay", "deliver_at"} & json.loads(attributes).keys()


def test_an_id_that_the_application_gave_is_kept(shop: Shop) -> None:
    with closing(shop.connect()) as connection, connection:
        message = Message("orders", b"x", properties={"UNIQ_KEY": "OF-MY-OWN"})
        assert shop.outbox.add(connection, message) == "OF-MY-OWN"


def test_a_message_that_no_broker_would_take_is_refused_while_the_transaction_can_be_undone(
    shop: Shop,
) -> None:
    with pytest.raises(MessageIllegal), closing(shop.connect()) as connection, connection:
        shop.outbox.add(connection, Message("no such: topic", b"x"))

    assert shop.rows("id") == []


def test_making_the_table_again_changes_nothing(shop: Shop) -> None:
    shop.order(1)

    with closing(shop.connect()) as connection, connection:
        shop.outbox.create_table(connection)

    assert len(shop.rows("id")) == 1


def test_a_session_of_sqlalchemy_writes_order_and_message_together(shop: Shop) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{shop.path}")
    outbox = Outbox("sqlite")

    with Session(engine) as session:
        session.execute(sqlalchemy.text("INSERT INTO orders VALUES (1)"))
        outbox.add(session, Message("orders", b"undone"))
        session.rollback()
        outbox.add(session, Message("orders", b"committed"))
        session.commit()

    assert shop.rows("body") == [(b"committed",)]
    engine.dispose()


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql"])
def test_a_migration_gets_the_statements_of_its_database(dialect: str) -> None:
    ddl = ";".join(Outbox(dialect, "shop.outbox").ddl())

    assert "CREATE TABLE IF NOT EXISTS shop.outbox" in ddl
    assert {"sqlite": "AUTOINCREMENT", "postgresql": "IDENTITY", "mysql": "AUTO_INCREMENT"}[dialect] in ddl
    assert {"sqlite": "BLOB", "postgresql": "BYTEA", "mysql": "LONGBLOB"}[dialect] in ddl


def test_an_unknown_database_is_refused() -> None:
    with pytest.raises(ConfigError):
        Outbox("oracle")
