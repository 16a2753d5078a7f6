"""The sources of duplicates on a real broker, and a listener that does its work once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import (
    ConsumeFrom,
    Delivery,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)
from pyromq.once import SqliteTokens, once
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually


@pytest.fixture
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def tokens(tmp_path: Path) -> SqliteTokens:
    return SqliteTokens(tmp_path / "tokens.db", scope="billing")


def first_key(message: ReceivedMessage) -> str:
    return message.keys[0]


@pytest.mark.row("ID-03", "ID-04")
def test_an_order_that_was_sent_twice_has_two_ids_and_is_billed_once(
    cluster: ThreadCluster, tokens: SqliteTokens
) -> None:
    bills, seen = [], []

    @once(tokens, key=first_key)
    def bill(message: ReceivedMessage) -> None:
        bills.append(message.keys[0])

    def handle(message: ReceivedMessage) -> object:
        answer = bill(message)
        seen.append(message.message_id)
        return answer

    with Producer("shop", cluster.namesrv_address) as producer:
        for _ in range(2):
            producer.send(Message("orders", b"one sauna", keys=["42"]))
    consumer = PushConsumer(
        "billing", cluster.namesrv_address, listener=handle, consume_from=ConsumeFrom.FIRST_OFFSET
    )
    consumer.subscribe("orders")
    with consumer:
        eventually(lambda: len(seen) == 2, 30)

    assert len(set(seen)) == 2
    assert bills == ["42"]


@pytest.mark.row("ID-04")
def test_a_message_that_failed_after_its_work_comes_again_and_is_billed_once(
    cluster: ThreadCluster, tokens: SqliteTokens
) -> None:
    bills, seen = [], []

    @once(tokens, key=first_key)
    def bill(message: ReceivedMessage) -> None:
        bills.append(message.keys[0])

    def handle(message: ReceivedMessage, delivery: Delivery) -> None:
        bill(message)
        seen.append(message.reconsume_times)
        if len(seen) == 1:
            delivery.delay_level = 1
            raise OSError("the answer was lost")

    with Producer("shop", cluster.namesrv_address) as producer:
        producer.send(Message("orders", b"one sauna", keys=["42"]))
    consumer = PushConsumer(
        "billing", cluster.namesrv_address, listener=handle, consume_from=ConsumeFrom.FIRST_OFFSET
    )
    consumer.subscribe("orders")
    with consumer:
        eventually(lambda: len(seen) == 2, 30)

    assert seen == [0, 1]
    assert bills == ["42"]


@pytest.mark.row("ID-04")
def test_a_message_that_two_members_get_around_a_rebalance_is_billed_once(
    cluster: ThreadCluster, tokens: SqliteTokens
) -> None:
    bills = []

    @once(tokens, key=first_key)
    def bill(message: ReceivedMessage) -> None:
        bills.append(message.keys[0])

    with Producer("shop", cluster.namesrv_address) as producer:
        queue = producer.send(Message("orders", b"one sauna", keys=["42"])).queue

    # A queue goes to another member before the first has committed: both have read the same message.
    for _member in range(2):
        with PullConsumer("billing", cluster.namesrv_address) as consumer:
            (message,) = consumer.pull(queue, 0).messages
            bill(message)

    assert bills == ["42"]


@pytest.mark.row("TX-10", "ID-04")
def test_a_transactions_message_that_is_consumed_twice_is_told_by_its_key_and_billed_once(
    cluster: ThreadCluster, tokens: SqliteTokens
) -> None:
    bills, seen = [], []

    @once(tokens, key=first_key)
    def bill(message: ReceivedMessage) -> None:
        bills.append(message.keys[0])

    def handle(message: ReceivedMessage, delivery: Delivery) -> None:
        bill(message)
        seen.append(message.message_id)
        if len(seen) == 1:
            delivery.delay_level = 1
            raise OSError("the answer was lost")

    with TransactionProducer(
        "shop",
        cluster.namesrv_address,
        execute=lambda *_: TransactionState.COMMIT,
        check=lambda _: TransactionState.COMMIT,
    ) as producer:
        sent = producer.send_in_transaction(Message("orders", b"one sauna", keys=["42"]))
    consumer = PushConsumer(
        "billing", cluster.namesrv_address, listener=handle, consume_from=ConsumeFrom.FIRST_OFFSET
    )
    consumer.subscribe("orders")
    with consumer:
        eventually(lambda: len(seen) == 2, 30)

    # The id of the half is that of the message, and of its retries.
    assert seen == [sent.message_id] * 2
    assert bills == ["42"]
