"""Ten thousand receives that wait on one connection: what they cost, and that nothing of them stays."""

import asyncio
import tracemalloc
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
import pytest
from grpc_consumers import TOPIC
from grpc_sdk import put_topic, resource

from pyromq.broker.broker import Broker
from pyromq.testing.cluster import Cluster, ThreadCluster
from pyromq.testing.waiting import eventually
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_times import duration_of

T = TypeVar("T")
COUNT, GROUPS = 10_000, 10
#: Bytes that a waiting receive may take, without what nghttp2 has of it.
RECEIVE_BYTES_MAX = 12 * 1024


def asked(group: int) -> bytes:
    return pb.ReceiveMessageRequest(
        group=resource(f"readers-{group}"),
        message_queue=pb.MessageQueue(topic=resource(TOPIC)),
        batch_size=32,
        filter_expression=pb.FilterExpression(type=1, expression="*"),
        invisible_duration=duration_of(60_000),
        long_polling_timeout=duration_of(20_000),
    ).SerializeToString()


class Side:
    """The broker, on a loop of its own."""

    def __init__(self, threads: ThreadCluster) -> None:
        self._threads = threads
        self.cluster: Cluster = threads._cluster

    def run(self, work: Callable[[Broker], T]) -> T:
        """Do something on the broker's loop."""
        [broker] = self.cluster.brokers.values()

        async def on_loop() -> T:
            return work(broker)

        return asyncio.run_coroutine_threadsafe(on_loop(), self._threads._loop).result(60)

    def held(self) -> int:
        return self.run(
            lambda broker: sum(broker.pop.held_count(f"readers-{group}", TOPIC) for group in range(GROUPS))
        )

    def tasks(self) -> int:
        return self.run(lambda _: len(asyncio.all_tasks()))

    def bytes(self) -> int:
        def taken(_: Broker) -> int:
            ours = tracemalloc.Filter(inclusive=True, filename_pattern="*/src/pyromq/*")
            loops = tracemalloc.Filter(inclusive=True, filename_pattern="*/asyncio/*")
            snapshot = tracemalloc.take_snapshot().filter_traces((ours, loops))
            return sum(each.size for each in snapshot.statistics("filename"))

        return self.run(taken)


@pytest.mark.row("GR-27")
def test_ten_thousand_receives_wait_and_leave_nothing_behind() -> None:
    # Longer than the polling time: none of them ends by itself before all are there.
    cluster = Cluster(
        has_grpc=True, grpc_client_consumer_min_long_polling_timeout_millis=600_000,
        grpc_client_consumer_max_long_polling_timeout_millis=600_000,
    )  # fmt: skip
    with ThreadCluster(cluster) as threads:
        side = Side(threads)
        side.run(lambda _: put_topic(cluster, TOPIC))
        with grpc.insecure_channel(cluster.grpc_addresses[0]) as channel:
            receive = channel.unary_stream("/apache.rocketmq.v2.MessagingService/ReceiveMessage")

            def begin(number: int) -> Any:
                metadata = (("x-mq-client-id", f"client-{number % GROUPS}"),)
                return receive(asked(number % GROUPS), metadata=metadata)

            warm = begin(0)
            eventually(lambda: side.held() == 1)
            warm.cancel()
            eventually(lambda: side.held() == 0)
            tasks_before = side.tasks()
            tracemalloc.start()
            try:
                bytes_before = side.bytes()
                calls = [begin(number) for number in range(COUNT)]
                eventually(lambda: side.held() == COUNT, 120)
                each_bytes = (side.bytes() - bytes_before) / COUNT
                tasks = side.tasks() - tasks_before
                for call in calls:
                    call.cancel()
                eventually(lambda: side.held() == 0, 120)
                eventually(lambda: side.tasks() <= tasks_before)
                left_bytes = side.bytes() - bytes_before
            finally:
                tracemalloc.stop()
        in_flight = side.run(lambda broker: broker.pop.in_flight_count)

    assert tasks <= COUNT + 10
    assert each_bytes < RECEIVE_BYTES_MAX
    # What is kept on purpose, such as the room of tables, is no more than this.
    assert left_bytes < COUNT * RECEIVE_BYTES_MAX / 10
    assert in_flight == 0
