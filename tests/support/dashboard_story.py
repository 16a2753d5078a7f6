"""What happened in a cluster that a dashboard shows: orders, groups that read them, dead letters, traces."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from dead_letter_stage import undertaker

from pyromq import Admin, Message, Producer, PullConsumer, PushConsumer, QueryNotFound
from pyromq.cli.admin.trace_admin import traces_of
from pyromq.config.settings import ClientSettings
from pyromq.model import ConsumeFrom, MessageQueue
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually

#: Markup and script as a hostile producer sends them.
HOSTILE = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'
ORDER_COUNT = 30


@dataclass
class Story:
    """The cluster, and what was sent to it."""

    cluster: ThreadCluster
    producer: Producer
    #: The broker's id of the first order, and its producer's.
    place_id: str
    message_id: str
    seen: list[bytes]

    @property
    def name_server(self) -> str:
        """The name server's address."""
        return self.cluster.namesrv_address

    def committed(self, group: str, topic: str) -> dict[MessageQueue, int | None]:
        """Return how far a group is."""
        with PullConsumer(group, self.name_server) as reader:
            return {queue: reader.committed(queue) for queue in reader.queues(topic)}


@contextmanager
def told_story(brokers: int = 1) -> Iterator[Story]:
    """Run a cluster in which it has happened."""
    with ExitStack() as closing:
        cluster = closing.enter_context(
            running_cluster(brokers, default_topic_queue_nums=4, trace_topic_enable=True)
        )
        name_server = cluster.namesrv_address
        tracing = ClientSettings(enable_msg_trace=True)
        producer = closing.enter_context(Producer("web-shop", name_server, tracing))
        sent = [
            producer.send(
                Message(
                    "orders",
                    json.dumps({"id": at, "city": "Oslo", "items": [at, at + 1]}).encode(),
                    keys=[f"order-{at}"],
                    tags="paid",
                )
            )
            for at in range(ORDER_COUNT)
        ]
        producer.send(Message("orders", bytes(range(256)), keys=["binary"], tags="raw"))
        producer.send(Message("orders", HOSTILE.encode(), keys=["hostile"], tags="<b>bold</b>"))
        _read_all(name_server, "audit", "orders")
        _bury(cluster, "mail")
        seen: list[bytes] = []
        closing.enter_context(_consuming(name_server, "billing", "orders", seen))
        with Admin(name_server) as admin:
            # A page of a message shows what is known of it when it is opened.
            eventually(lambda: _is_traced(admin, sent[0].message_id), 60, what="the first order is traced")
            # A topic that its first message makes has a route a moment later.
            for topic in ("keyless", "many-stored"):
                admin.create_topic(topic, 4)
        yield Story(cluster, producer, sent[0].offset_message_id, sent[0].message_id, seen)


def _is_traced(admin: Admin, message_id: str) -> bool:
    try:
        kinds = {one["type"] for one in traces_of(admin, "RMQ_SYS_TRACE_TOPIC", message_id)}
    except QueryNotFound:
        return False
    return {"Pub", "SubAfter"} <= kinds


@contextmanager
def _consuming(name_server: str, group: str, topic: str, seen: list[bytes]) -> Iterator[None]:
    lock = threading.Lock()

    def handle(message: object) -> None:
        with lock:
            seen.append(getattr(message, "body", b""))

    consumer = PushConsumer(
        group,
        name_server,
        listener=handle,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        persist_consumer_offset_interval=500,
        enable_msg_trace=True,
    )
    consumer.subscribe(topic)
    with consumer:
        eventually(lambda: len(seen) >= ORDER_COUNT, 60, what="the group has read the orders")
        yield


def _read_all(name_server: str, group: str, topic: str) -> None:
    """Let a group be at the end of a topic's queues; nobody of it stays."""
    with PullConsumer(group, name_server) as reader:
        for queue in reader.queues(topic):
            reader.commit(queue, reader.max_offset(queue))


def _bury(cluster: ThreadCluster, group: str) -> None:
    with undertaker(cluster.namesrv_address, cluster.broker_addresses) as who:
        for at in range(4):
            who.bury(group, "orders", b'{"mail": %d, "to": "nobody"}' % at, tags="late", keys=[f"mail-{at}"])
