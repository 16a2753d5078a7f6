"""RecallMessage: a message that waits for its delivery time is taken back."""

from collections.abc import Awaitable
from typing import Any, Final

from pyromq.broker.grpc.cluster_routes import ClusterRoutes
from pyromq.broker.grpc.grpc_callers import GrpcCaller
from pyromq.broker.grpc.grpc_needs import need_to_publish
from pyromq.broker.grpc.grpc_table import OK_STATUS, Rpc
from pyromq.broker.grpc.remoting_way import RemotingWay
from pyromq.broker.grpc.route_rpcs import accepted_types
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import BrokerProcess
from pyromq.errors import HeaderError, NetworkError, Refused
from pyromq.net.links import Links
from pyromq.net.routes import Answer
from pyromq.wire.command import Command
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused, code_of_remoting
from pyromq.wire.grpc.grpc_names import check_grpc_topic
from pyromq.wire.grpc.proto_numbers import MessageType
from pyromq.wire.header import write_header
from pyromq.wire.headers.timer_headers import RecallMessage
from pyromq.wire.recall_handle import RecallHandle, decode_recall_handle

RELAY_S_MAX: Final = 3.0


class RecallRpcs:
    """Answers RecallMessage."""

    def __init__(
        self,
        way: RemotingWay,
        topics: TopicTable,
        settings: BrokerProcess,
        *,
        routes: ClusterRoutes,
        links: Links,
    ) -> None:
        self._way = way
        self._topics = topics
        self._settings = settings
        self._routes = routes
        self._links = links

    def rpcs(self) -> list[Rpc[Any, Any]]:
        """Return what is answered here."""
        return [
            Rpc(
                "RecallMessage",
                pb.RecallMessageRequest,
                pb.RecallMessageResponse,
                need_to_publish,
                self.recall,
            )
        ]

    async def recall(self, caller: GrpcCaller, request: pb.RecallMessageRequest) -> pb.RecallMessageResponse:
        """Take a message back, here or on the broker that its handle names: SDKs ask any."""
        topic = request.topic.name
        check_grpc_topic(topic)
        if not self._settings.grpc.recall_message_enable:
            raise GrpcRefused(
                GrpcCode.INTERNAL_SERVER_ERROR, "recalls are switched off; set recallMessageEnable=true"
            )
        config = self._topics.get(topic)
        if config is not None and MessageType.DELAY not in accepted_types(config):
            raise GrpcRefused(
                GrpcCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"topic {topic} has no messages with a delivery time (message.type is not DELAY)",
            )
        handle = _handle_of(request, topic)
        header = RecallMessage(topic=topic, recall_handle=request.recall_handle)
        if handle.broker_name != self._settings.broker.broker_name:
            await self._relay(handle, header)
        else:
            await self._recall_here(header, caller)
        return pb.RecallMessageResponse(status=OK_STATUS, message_id=handle.message_id)

    async def _recall_here(self, header: RecallMessage, caller: GrpcCaller) -> None:
        try:
            answer = self._way.ask(RequestCode.RECALL_MESSAGE, header, caller)
            if isinstance(answer, Awaitable):
                answer = await answer
        except Refused as refused:
            raise _refusal(refused.code, refused.remark) from refused
        _check(answer)

    async def _relay(self, handle: RecallHandle, header: RecallMessage) -> None:
        address = await self._routes.master_of(handle.broker_name, handle.topic)
        if address is None:
            raise GrpcRefused(
                GrpcCode.BAD_REQUEST,
                f"the recall handle names broker {handle.broker_name}, which nobody knows",
            )
        command = Command(RequestCode.RECALL_MESSAGE, ext=write_header(header))
        try:
            answer = await self._links.request(address, command, RELAY_S_MAX)
        except NetworkError as error:
            raise GrpcRefused(
                GrpcCode.PROXY_TIMEOUT, f"broker {handle.broker_name} does not answer: {error}"
            ) from error
        if answer.code != ResponseCode.SUCCESS:
            raise _refusal(answer.code, answer.remark)


def _handle_of(request: pb.RecallMessageRequest, topic: str) -> RecallHandle:
    try:
        handle = decode_recall_handle(request.recall_handle)
    except HeaderError as error:
        raise GrpcRefused(
            GrpcCode.BAD_REQUEST, "the recall handle is none; a send of a delayed message gives it"
        ) from error
    if handle.topic != topic:
        raise GrpcRefused(
            GrpcCode.BAD_REQUEST, f"the recall handle is one of topic {handle.topic}, not {topic}"
        )
    return handle


def _check(answer: Answer) -> None:
    if answer.code != ResponseCode.SUCCESS:
        raise _refusal(answer.code, answer.remark)


def _refusal(code: int, remark: str | None) -> GrpcRefused:
    """Return what a refused recall is told: too late, and unknown, are one for remoting."""
    if code == ResponseCode.ILLEGAL_OPERATION:
        return GrpcRefused(GrpcCode.MESSAGE_NOT_FOUND, remark or "the message does not wait any more")
    told = code_of_remoting(code)
    return GrpcRefused(told, remark or told.name)
