"""QueryRoute and QueryAssignment: which queues a topic has, and which of them a consumer receives from."""

from collections.abc import Iterator
from typing import Final

from pyromq import system_names
from pyromq.broker.groups.groups import GroupTable
from pyromq.broker.grpc.cluster_routes import BrokerPart, ClusterRoutes
from pyromq.broker.grpc.grpc_addresses import MASTER_ID, GrpcAddressBook
from pyromq.broker.grpc.grpc_callers import GrpcCaller
from pyromq.broker.grpc.grpc_endpoints import are_usable, endpoints_of
from pyromq.broker.grpc.grpc_needs import need_of_route, need_to_consume
from pyromq.broker.grpc.grpc_table import OK_STATUS, Rpc
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import Perm
from pyromq.config.settings import BrokerProcess
from pyromq.model import TopicType
from pyromq.name_rules import DEAD_LETTER_PREFIX, RETRY_PREFIX
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.grpc.grpc_names import check_grpc_group, check_grpc_topic
from pyromq.wire.grpc.proto_numbers import MessageType, QueuePermission

_ALL_TYPES: Final = (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION)
_ACCEPTED: Final[dict[TopicType, tuple[MessageType, ...]]] = {
    TopicType.NORMAL: (MessageType.NORMAL,),
    TopicType.FIFO: (MessageType.FIFO,),
    TopicType.DELAY: (MessageType.DELAY,),
    TopicType.TRANSACTION: (MessageType.TRANSACTION,),
    TopicType.MIXED: _ALL_TYPES,
    TopicType.PRIORITY: (MessageType.PRIORITY,),
    TopicType.LITE: (MessageType.LITE,),
}
#: The queue of an assignment that stands for all queues of a broker.
ALL_QUEUES: Final = -1


def accepted_types(config: TopicConfig | None) -> tuple[MessageType, ...]:
    """Return the kinds of messages that a topic takes; a topic that is not here takes normal ones."""
    kind = TopicType.NORMAL if config is None else config.topic_type
    return _ACCEPTED.get(kind, (MessageType.NORMAL,))


class RouteRpcs:
    """Answers QueryRoute and QueryAssignment."""

    def __init__(
        self,
        routes: ClusterRoutes,
        book: GrpcAddressBook,
        topics: TopicTable,
        groups: GroupTable,
        settings: BrokerProcess,
    ) -> None:
        self._routes = routes
        self._book = book
        self._topics = topics
        self._groups = groups
        self._settings = settings

    def rpcs(
        self,
    ) -> list[
        Rpc[pb.QueryRouteRequest, pb.QueryRouteResponse]
        | Rpc[pb.QueryAssignmentRequest, pb.QueryAssignmentResponse]
    ]:
        """Return what is answered here."""
        return [
            Rpc("QueryRoute", pb.QueryRouteRequest, pb.QueryRouteResponse, need_of_route, self.route),
            Rpc(
                "QueryAssignment",
                pb.QueryAssignmentRequest,
                pb.QueryAssignmentResponse,
                need_to_consume,
                self.assignment,
            ),
        ]

    async def route(self, _caller: GrpcCaller, request: pb.QueryRouteRequest) -> pb.QueryRouteResponse:
        """Answer all queues of a topic on all of its brokers, in an order that stays."""
        topic = request.topic.name
        check_grpc_topic(topic)
        if not are_usable(request.endpoints):
            raise GrpcRefused(
                GrpcCode.ILLEGAL_ACCESS_POINT,
                "the request has no endpoints, or several of a domain name; say where the client connects",
            )
        parts = await self._routes.find(topic) or await self._created(topic)
        types = accepted_types(await self._routes.config_of(topic, parts))
        response = pb.QueryRouteResponse(status=OK_STATUS)
        for part in parts:
            for broker_id in sorted(part.addresses):
                broker = pb.Broker(
                    name=part.name,
                    id=broker_id,
                    endpoints=self._endpoints(part, broker_id, request.endpoints, is_only=len(parts) == 1),
                )
                for queue_id, permission in enumerate(_permissions(part)):
                    response.message_queues.add(
                        topic=request.topic,
                        id=queue_id,
                        permission=permission,
                        broker=broker,
                        accept_message_types=types,
                    )
        return response

    async def assignment(
        self, _caller: GrpcCaller, request: pb.QueryAssignmentRequest
    ) -> pb.QueryAssignmentResponse:
        """Answer what each member of a group receives from: the same for all, since queues are shared."""
        topic, group = request.topic.name, request.group.name
        check_grpc_topic(topic)
        check_grpc_group(group)
        parts = await self._routes.find(topic)
        if not parts:
            raise _unknown(topic)
        config = self._groups.configs.get(group)
        is_fifo = config is not None and config.is_fifo
        readable = [
            part
            for part in parts
            if part.perm & Perm.READ and part.read_queue_nums > 0 and MASTER_ID in part.addresses
        ]
        if not readable:
            raise GrpcRefused(GrpcCode.FORBIDDEN, f"no readable queue of topic {topic}")
        response = pb.QueryAssignmentResponse(status=OK_STATUS)
        for part in readable:
            endpoints = self._endpoints(part, MASTER_ID, request.endpoints, is_only=len(parts) == 1)
            for queue_id in range(part.read_queue_nums) if is_fifo else (ALL_QUEUES,):
                queue = response.assignments.add().message_queue
                queue.topic.CopyFrom(request.topic)
                queue.id = queue_id
                queue.permission = (
                    QueuePermission.READ_WRITE if part.perm & Perm.WRITE else QueuePermission.READ
                )
                queue.broker.name, queue.broker.id = part.name, MASTER_ID
                queue.broker.endpoints.CopyFrom(endpoints)
        return response

    async def _created(self, topic: str) -> list[BrokerPart]:
        """Return the brokers of a topic that is created now, where the settings let that be."""
        settings = self._settings
        is_allowed = settings.grpc.grpc_auto_create_topic and settings.broker.auto_create_topic_enable
        if is_allowed and not topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
            config = self._topics.inherit(
                topic, system_names.AUTO_CREATE, queue_count=self._topics.first_send_queues
            )
            if config is not None:
                await self._topics.save()
                return list(await self._routes.find(topic))
        raise _unknown(topic)

    def _endpoints(
        self, part: BrokerPart, broker_id: int, asked: pb.Endpoints, *, is_only: bool
    ) -> pb.Endpoints:
        """Return where a client reaches a broker: where it reached us, if that is the one, and works for it.

        So containers and networks with address translation need no settings. Several addresses are those of
        several replicas, where there are some: only one of them is the master's.
        """
        address = part.addresses[broker_id]
        is_here = address == self._book.own_address and is_only and not self._settings.grpc.grpc_advertise
        if is_here and are_usable(asked) and (len(asked.addresses) == 1 or len(part.addresses) == 1):
            return asked
        return endpoints_of(*self._book.find(part.name, address))


def _permissions(part: BrokerPart) -> Iterator[QueuePermission]:
    """Yield the permission of each queue: those to be read only, those to be written only, those for both."""
    reads = part.read_queue_nums if part.perm & Perm.READ else 0
    writes = part.write_queue_nums if part.perm & Perm.WRITE else 0
    if not part.perm & (Perm.READ | Perm.WRITE):
        for _ in range(max(1, part.read_queue_nums, part.write_queue_nums)):
            yield QueuePermission.NONE
        return
    both = min(reads, writes)
    for count, permission in (
        (reads - both, QueuePermission.READ),
        (writes - both, QueuePermission.WRITE),
        (both, QueuePermission.READ_WRITE),
    ):
        for _ in range(count):
            yield permission


def _unknown(topic: str) -> GrpcRefused:
    return GrpcRefused(
        GrpcCode.TOPIC_NOT_FOUND,
        f"topic {topic} does not exist; create it (`pyromq topic create {topic}`), or set "
        "grpcAutoCreateTopic=true",
    )
