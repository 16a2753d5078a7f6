"""What tests of push consumers share: quick intervals, listeners that remember, looks at a cluster."""

from collections.abc import Callable, Sequence
from typing import Any

import pyromq
from pyromq import ConsumeFrom, Message, MessageQueue, NoRoute, ReceivedMessage
from pyromq.config.settings import NetSettings
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.cluster import ThreadCluster
from pyromq.testing.waiting import eventually
from pyromq.wire.command import Command

#: Intervals that suit tests; a rebalance is told of by the broker anyway.
QUICK: dict[str, Any] = {
    "rebalance_wait_interval": 300,
    "rebalance_lock_interval": 300,
    "persist_consumer_offset_interval": 100,
    "pull_time_delay_mills_when_exception": 100,
    "poll_name_server_interval": 300,
    "suspend_current_queue_time_millis": 20,
}
FIRST = {"consume_from": ConsumeFrom.FIRST_OFFSET}


class Handler:
    """A listener that keeps what it gets."""

    def __init__(self, answer: Callable[[ReceivedMessage], object] = lambda _message: None) -> None:
        self.got: list[ReceivedMessage] = []
        self._answer = answer

    def __call__(self, message: ReceivedMessage) -> object:
        self.got.append(message)
        return self._answer(message)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in list(self.got)]


def send(producer: pyromq.Producer, topic: str, count: int, **more: Any) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    for body in bodies:
        producer.send(Message(topic, body, **more))
    return bodies


def progress(address: str, group: str, queue: MessageQueue) -> int | None:
    with pyromq.PullConsumer(group, address) as consumer:
        return consumer.committed(queue)


def total_progress(address: str, group: str, queues: Sequence[MessageQueue]) -> int:
    with pyromq.PullConsumer(group, address) as consumer:
        return sum(consumer.committed(queue) or 0 for queue in queues)


def ask(cluster: ThreadCluster, code: int, ext: dict[str, str]) -> Command:
    links = BlockingLinks(NetSettings())
    try:
        return links.request(cluster.broker_addresses[0], Command(code, ext=ext), 15)
    finally:
        links.close()


def read_topic(address: str, topic: str, count: int) -> list[ReceivedMessage]:
    with pyromq.PullConsumer("readers", address, start_from=ConsumeFrom.FIRST_OFFSET) as reader:

        def found() -> list[ReceivedMessage] | None:
            try:
                messages = [
                    message for queue in reader.queues(topic) for message in reader.pull(queue, 0).messages
                ]
            except NoRoute:
                return None
            return messages if len(messages) >= count else None

        return eventually(found, 60)


def own(consumer: Any, topic: str) -> list[MessageQueue]:
    return [queue for queue in consumer.assignment() if queue.topic == topic]
