"""The awaitable admin client."""

from functools import partial
from types import TracebackType
from typing import Self

from pyromq.client.aio.operations import Operations
from pyromq.client.aio.runner import Runner
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.plans import admin, consumer_status, progress, timers
from pyromq.client.plans.admin import FOREVER_MS, NO_FLAG, KeyQuery, NewTopic
from pyromq.client.plans.consumer_status import ConsumerStatus, StatusQuery
from pyromq.client.plans.timers import WaitingQuery
from pyromq.client.session import new_session
from pyromq.client.steps import Deadline
from pyromq.codes import Perm, TopicSysFlag
from pyromq.config.settings import ClientSettings
from pyromq.model import MessageQueue, ReceivedMessage, WaitingMessage
from pyromq.wire.bodies.route import ClusterTable, TopicRoute

#: Milliseconds that an operator's question may take unless it says otherwise (RocketMQ's MQAdminImpl).
TIMEOUT_MS = 6_000


class Admin(Operations):
    """Creates topics, finds messages, and shows what the cluster is.

    with Admin("127.0.0.1:9876") as admin:
        admin.create_topic("orders", queue_count=4)
    """

    def __init__(self, name_server: str | None = None, settings: ClientSettings | None = None) -> None:
        addresses = name_server_addresses(name_server, settings)
        self._runner = Runner("admin", partial(new_session, "", addresses, settings or ClientSettings()))

    async def start(self) -> None:
        """Begin; an `async with` block does it."""
        await self._runner.start()

    async def close(self) -> None:
        """Close the connections."""
        await self._runner.close()

    async def cluster(self) -> ClusterTable:
        """Return all brokers by name with their addresses, and the brokers of each cluster."""
        return await self._runner.run(admin.cluster(self._runner.session, self._deadline()))

    async def route(self, topic: str) -> TopicRoute:
        """Return a topic's queues and brokers as a name server has them now; raises TopicNotFound."""
        return await self._runner.run(admin.route(self._runner.session, topic, self._deadline()))

    async def create_topic(
        self,
        topic: str,
        queue_count: int = 8,
        *,
        perm: Perm = Perm.READ | Perm.WRITE,
        is_ordered: bool = False,
        sys_flag: TopicSysFlag = NO_FLAG,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Create a topic, or change it if it is there, on every master of a cluster, or on one broker.

        Without either it is created on all brokers that the name server knows. `sys_flag` says whether it
        belongs to a unit (`TopicSysFlag.UNIT`), and whether it is subscribed by unit (`UNIT_SUB`).
        """
        new = NewTopic(topic, queue_count, perm, is_ordered, sys_flag)
        await self._runner.run(
            admin.create_topic(self._runner.session, new, cluster, broker, self._deadline())
        )

    async def view_message(self, offset_message_id: str) -> ReceivedMessage:
        """Return the message with the id that the broker gave it."""
        return await self._runner.run(
            admin.view_message(self._runner.session, offset_message_id, self._deadline())
        )

    async def find_message(self, topic: str, message_id: str) -> ReceivedMessage:
        """Return the message with the unique id that its producer gave it; raises QueryNotFound."""
        return await self._runner.run(
            admin.find_message(self._runner.session, topic, message_id, self._deadline())
        )

    async def query_message(
        self, topic: str, key: str, *, count: int = 32, begin_ms: int = 0, end_ms: int = FOREVER_MS
    ) -> list[ReceivedMessage]:
        """Return up to `count` messages with a key, stored within a range of time, oldest first."""
        query = KeyQuery(topic, key, count, begin_ms, end_ms)
        return await self._runner.run(admin.query_message(self._runner.session, query, self._deadline()))

    async def waiting(
        self,
        topic: str | None = None,
        *,
        key: str | None = None,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
        count: int = 32,
        after: WaitingMessage | None = None,
    ) -> list[WaitingMessage]:
        """Return up to `count` messages that wait for their time, the earliest first.

        Those for a topic, with a key or a unique id, due within a range of time, both ends with it; behind
        `after`, the last one of the list before. Raises Refused when no broker is one of PyroMQ's.
        """
        query = WaitingQuery(topic, key, begin_ms, end_ms, count, after)
        return await self._runner.run(timers.waiting(self._runner.session, query, self._deadline()))

    async def count_waiting(self) -> dict[str, int]:
        """Return how many messages wait for their time on each of PyroMQ's brokers, by its name."""
        return await self._runner.run(timers.count_waiting(self._runner.session, self._deadline()))

    async def consumer_status(
        self,
        group: str,
        *,
        client_id: str | None = None,
        broker_address: str | None = None,
        with_stacks: bool = False,
    ) -> ConsumerStatus:
        """Return a group's members, what each wants and does, and whether they want the same.

        With a client id only that member is asked what it does; with an address only that broker is asked who
        is there. Raises Refused (CONSUMER_NOT_ONLINE) when nobody is connected.
        """
        query = StatusQuery(group, broker_address, client_id, with_stacks)
        return await self._runner.run(
            consumer_status.consumer_status(self._runner.session, query, self._deadline())
        )

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first message that is still there."""
        return await self._runner.run(progress.min_offset(self._runner.session, queue, self._deadline()))

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get."""
        return await self._runner.run(progress.max_offset(self._runner.session, queue, self._deadline()))

    async def offset_by_time(self, queue: MessageQueue, at_ms: int) -> int:
        """Return the offset of the first message stored at or after a time, in milliseconds since 1970."""
        return await self._runner.run(
            progress.offset_by_time(self._runner.session, queue, at_ms, self._deadline())
        )

    async def earliest_time(self, queue: MessageQueue) -> int | None:
        """Return when the first message that is still there was stored, or None when the queue is empty."""
        return await self._runner.run(progress.earliest_time(self._runner.session, queue, self._deadline()))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _deadline(self) -> Deadline:
        return self._runner.session.deadline(None, TIMEOUT_MS)
