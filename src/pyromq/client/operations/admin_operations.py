"""The methods of the admin client: topics, messages, members of groups, offsets."""

from functools import partial

from pyromq.client.client_session import new_session
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.operations.cluster_operations import ClusterOperations
from pyromq.client.operations.declaration import Operation
from pyromq.client.plans import progress_plans, timer_plans
from pyromq.client.plans.admin import consumer_status_plans
from pyromq.client.plans.admin import lookups as admin
from pyromq.client.plans.admin.consumer_status_plans import ConsumerStatus, StatusQuery
from pyromq.client.plans.admin.lookups import FOREVER_MS, NO_FLAG, KeyQuery, NewTopic
from pyromq.client.plans.timer_plans import WaitingQuery
from pyromq.client.steps import Plan
from pyromq.codes import Perm, TopicSysFlag
from pyromq.config.settings import ClientSettings
from pyromq.model import MessageQueue, ReceivedMessage, WaitingMessage
from pyromq.wire.bodies.route_bodies import ClusterTable, TopicRoute


class AdminOperations(ClusterOperations):
    """Topics, messages, waiting messages, members of groups, and offsets."""

    def __init__(self, name_server: str | None = None, settings: ClientSettings | None = None) -> None:
        addresses = name_server_addresses(name_server, settings)
        self._set_runner("admin", partial(new_session, "", addresses, settings or ClientSettings()))

    @Operation
    def cluster(self) -> Plan[ClusterTable]:
        """Return all brokers by name with their addresses, and the brokers of each cluster."""
        return admin.cluster(self._session, self._deadline())

    @Operation
    def route(self, topic: str) -> Plan[TopicRoute]:
        """Return a topic's queues and brokers as a name server has them now; raises TopicNotFound."""
        return admin.route(self._session, topic, self._deadline())

    @Operation
    def create_topic(
        self,
        topic: str,
        queue_count: int = 8,
        *,
        perm: Perm = Perm.READ | Perm.WRITE,
        is_ordered: bool = False,
        sys_flag: TopicSysFlag = NO_FLAG,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Plan[None]:
        """Create a topic, or change it if it is there, on every master of a cluster, or on one broker.

        Without either it is created on all brokers that the name server knows. `sys_flag` says whether it
        belongs to a unit (`TopicSysFlag.UNIT`), and whether it is subscribed by unit (`UNIT_SUB`).
        """
        new = NewTopic(topic, queue_count, perm, is_ordered, sys_flag)
        return admin.create_topic(self._session, new, cluster, broker, self._deadline())

    @Operation
    def view_message(self, offset_message_id: str) -> Plan[ReceivedMessage]:
        """Return the message with the id that the broker gave it."""
        return admin.view_message(self._session, offset_message_id, self._deadline())

    @Operation
    def find_message(self, topic: str, message_id: str) -> Plan[ReceivedMessage]:
        """Return the message with the unique id that its producer gave it; raises QueryNotFound."""
        return admin.find_message(self._session, topic, message_id, self._deadline())

    @Operation
    def query_message(
        self, topic: str, key: str, *, count: int = 32, begin_ms: int = 0, end_ms: int = FOREVER_MS
    ) -> Plan[list[ReceivedMessage]]:
        """Return up to `count` messages with a key, stored within a range of time, oldest first."""
        query = KeyQuery(topic, key, count, begin_ms, end_ms)
        return admin.query_message(self._session, query, self._deadline())

    @Operation
    def waiting(
        self,
        topic: str | None = None,
        *,
        key: str | None = None,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
        count: int = 32,
        after: WaitingMessage | None = None,
    ) -> Plan[list[WaitingMessage]]:
        """Return up to `count` messages that wait for their time, the earliest first.

        Those for a topic, with a key or a unique id, due within a range of time, both ends with it; behind
        `after`, the last one of the list before. Raises Refused when no broker is one of PyroMQ's.
        """
        query = WaitingQuery(topic, key, begin_ms, end_ms, count, after)
        return timer_plans.waiting(self._session, query, self._deadline())

    @Operation
    def count_waiting(self) -> Plan[dict[str, int]]:
        """Return how many messages wait for their time on each of PyroMQ's brokers, by its name."""
        return timer_plans.count_waiting(self._session, self._deadline())

    @Operation
    def consumer_status(
        self,
        group: str,
        *,
        client_id: str | None = None,
        broker_address: str | None = None,
        with_stacks: bool = False,
    ) -> Plan[ConsumerStatus]:
        """Return a group's members, what each wants and does, and whether they want the same.

        With a client id only that member is asked what it does; with an address only that broker is asked who
        is there. Raises Refused (CONSUMER_NOT_ONLINE) when nobody is connected.
        """
        query = StatusQuery(group, broker_address, client_id, with_stacks)
        return consumer_status_plans.consumer_status(self._session, query, self._deadline())

    @Operation
    def min_offset(self, queue: MessageQueue) -> Plan[int]:
        """Return the offset of the first message that is still there."""
        return progress_plans.min_offset(self._session, queue, self._deadline())

    @Operation
    def max_offset(self, queue: MessageQueue) -> Plan[int]:
        """Return the offset that the next message will get."""
        return progress_plans.max_offset(self._session, queue, self._deadline())

    @Operation
    def offset_by_time(self, queue: MessageQueue, at_ms: int) -> Plan[int]:
        """Return the offset of the first message stored at or after a time, in milliseconds since 1970."""
        return progress_plans.offset_by_time(self._session, queue, at_ms, self._deadline())

    @Operation
    def earliest_time(self, queue: MessageQueue) -> Plan[int | None]:
        """Return when the first message that is still there was stored, or None when the queue is empty."""
        return progress_plans.earliest_time(self._session, queue, self._deadline())
