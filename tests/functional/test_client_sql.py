"""Our consumers on our broker, with SQL filters."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Admin, ConsumeFrom, Message, Producer, PullConsumer, PushConsumer, ReceivedMessage, Refused
from pyromq.testing.cluster import running_cluster
from pyromq.testing.waiting import eventually

TOPIC = "orders"
EXPRESSION = "amount > 10 AND region IN ('north', 'east')"
ORDERS = [(5, "north"), (15, "north"), (25, "south"), (35, "east")]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with running_cluster(data_dir=tmp_path, enable_property_filter=True) as cluster:
        with Admin(cluster.namesrv_address) as admin:
            admin.create_topic(TOPIC, 1)
        yield cluster.namesrv_address


@pytest.fixture
def producer(address: str) -> Iterator[Producer]:
    with Producer("shop", address) as producer:
        send(producer)
        yield producer


def send(producer: Producer) -> None:
    for amount, region in ORDERS:
        properties = {"amount": str(amount), "region": region}
        producer.send(Message(TOPIC, b"%d" % amount, properties=properties))


@pytest.mark.row("FI-02", "FI-03")
def test_a_push_consumer_gets_what_its_expression_matches(address: str, producer: Producer) -> None:
    got: list[bytes] = []

    def listen(message: ReceivedMessage) -> bool:
        got.append(message.body)
        return True

    with PushConsumer("one", address, listener=listen, consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        consumer.subscribe(TOPIC, sql=EXPRESSION)
        eventually(lambda: len(got) >= 2)
        send(producer)
        eventually(lambda: len(got) >= 4)

    assert sorted(got) == [b"15", b"15", b"35", b"35"]


@pytest.mark.row("FI-04")
@pytest.mark.usefixtures("producer")
def test_a_pull_consumer_gets_what_its_expression_matches(address: str) -> None:
    got: list[bytes] = []
    with PullConsumer("one", address, start_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        consumer.subscribe(TOPIC, sql=EXPRESSION)

        def has_all() -> bool:
            got.extend(message.body for message in consumer.poll(100))
            return len(got) >= 2

        eventually(has_all)
    assert got == [b"15", b"35"]


@pytest.mark.row("FI-04")
@pytest.mark.usefixtures("producer")
def test_a_single_pull_may_have_an_expression(address: str) -> None:
    with PullConsumer("one", address) as consumer:
        result = consumer.pull(consumer.queues(TOPIC)[0], 0, sql=EXPRESSION)
    assert [message.body for message in result.messages] == [b"15", b"35"]


def test_a_consumer_with_a_bad_expression_does_not_start_and_says_where_it_is_wrong(address: str) -> None:
    consumer = PushConsumer("one", address, listener=lambda _message: True)
    consumer.subscribe(TOPIC, sql="amount LIKE 'x'")
    with pytest.raises(Refused, match="At character 8: 'LIKE' stands where"):
        consumer.start()
