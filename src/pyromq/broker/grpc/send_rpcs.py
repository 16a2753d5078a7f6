"""SendMessage: messages of gRPC clients, stored as remoting stores its own."""

from collections.abc import Awaitable, Callable, Sequence
from random import randrange
from typing import Any, Final

from pyromq.broker.grpc.grpc_callers import GrpcCaller
from pyromq.broker.grpc.grpc_members import GrpcMembers
from pyromq.broker.grpc.grpc_needs import need_of_send
from pyromq.broker.grpc.grpc_table import OK_STATUS, Rpc
from pyromq.broker.grpc.remoting_way import RemotingWay
from pyromq.broker.grpc.route_rpcs import accepted_types
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import VERSION_5, Perm, RequestCode, ResponseCode
from pyromq.config.settings import BrokerProcess
from pyromq.errors import MessageIllegal
from pyromq.name_rules import DEAD_LETTER_PREFIX, RETRY_PREFIX
from pyromq.net.routes import Answer
from pyromq.wire import properties as names
from pyromq.wire.batch import BatchUnit, encode_batch
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused, code_of_remoting
from pyromq.wire.grpc.message_groups import queue_of_group
from pyromq.wire.grpc.proto_numbers import MessageType
from pyromq.wire.grpc.sent_messages import SendLimits, SentMessage, check_sent, read_sent
from pyromq.wire.grpc.transaction_ids import HalfPlace
from pyromq.wire.headers.send_headers import SendMessageV2
from pyromq.wire.message_id import parse_offset_message_id

#: Of a message: its id, and its MessageType.
IdAndKind = tuple[str, int]
#: Of one such, and the text in it.
_ID_BYTES: Final = 128
#: The message is stored, although the answer is no success.
_STORED: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)


class SendRpcs:
    """Answers SendMessage."""

    def __init__(
        self,
        way: RemotingWay,
        members: GrpcMembers,
        topics: TopicTable,
        settings: BrokerProcess,
        clock: Clock,
    ) -> None:
        self._way = way
        self._members = members
        self._topics = topics
        self._settings = settings
        self._clock = clock
        #: Messages without a group go to the queues in turn.
        self._turn = randrange(1 << 16)
        #: Told of each topic that took a message, and whose turn is next.
        self.learn: Callable[[TopicConfig, int], None] | None = None

    def rpcs(self) -> list[Rpc[Any, Any]]:
        """Return what is answered here."""
        return [
            Rpc(
                "SendMessage",
                pb.SendMessageRequest,
                pb.SendMessageResponse,
                need_of_send,
                self.send,
                kept=_kept_bytes,
            ),
        ]

    def send(
        self, caller: GrpcCaller, request: pb.SendMessageRequest
    ) -> pb.SendMessageResponse | Awaitable[pb.SendMessageResponse]:
        """Store a message, or all messages of a request."""
        messages = request.messages
        topic = check_sent(messages, self.limits, self._clock.now_ms())
        sent = [read_sent(message, topic, caller.peer) for message in messages]
        config = self._topic(topic, sent)
        queue_id = self._queue(config, sent)
        if sent[0].kind == MessageType.TRANSACTION:
            # SDKs say which topics they produce to only later, if they were not told at their start.
            self._members.produce(self._members.seen(caller), (topic,))
        code, header, body = _request_of(topic, queue_id, sent)
        try:
            answered = self._way.ask(code, header, caller, body=body, version=VERSION_5)
        except MessageIllegal as illegal:
            # Its body was looked at, so it is the properties that do not fit a record.
            raise GrpcRefused(GrpcCode.MESSAGE_PROPERTIES_TOO_LARGE, illegal.remark) from illegal
        # What waits to be safe keeps no bodies.
        ids = [(one.message_id, one.kind) for one in sent]
        if isinstance(answered, Answer):
            if self.learn is not None and answered.code == ResponseCode.SUCCESS:
                self.learn(config, self._turn)
            return self._response(ids, answered)
        return self._later(ids, answered)

    def answered(self, message_id: str, answer: Answer) -> pb.SendMessageResponse:
        """Return the response to a plain message that something else had answered as one of remoting."""
        return self._response([(message_id, MessageType.NORMAL)], answer)

    async def _later(self, ids: Sequence[IdAndKind], answered: Awaitable[Answer]) -> pb.SendMessageResponse:
        return self._response(ids, await answered)

    @property
    def limits(self) -> SendLimits:
        """The limits of what clients may send, as the settings are now."""
        own = self._settings.grpc
        return SendLimits(
            body_bytes_max=self._settings.store.max_message_size,
            is_empty_body_refused=own.enable_message_body_empty_check,
            property_count_max=own.user_property_max_num,
            property_bytes_max=own.max_user_property_size,
            group_bytes_max=own.max_message_group_size,
            recovery_s_max=own.max_transaction_recovery_second,
            delay_ms_max=own.max_delay_time_mills,
        )

    def _topic(self, topic: str, sent: list[SentMessage]) -> TopicConfig:
        """Return the topic; raise GrpcRefused unless it is there, takes these messages and may be written."""
        config = self._topics.configs.get(topic)
        if config is None:
            raise GrpcRefused(
                GrpcCode.TOPIC_NOT_FOUND,
                f"topic {topic} is not on this broker; create it, or ask for its route first",
            )
        if self._settings.grpc.enable_topic_message_type_check and not topic.startswith(
            (RETRY_PREFIX, DEAD_LETTER_PREFIX)
        ):
            accepted = accepted_types(config)
            wrong = next((one for one in sent if one.kind not in accepted), None)
            if wrong is not None:
                words = ", ".join(kind.name for kind in accepted)
                raise GrpcRefused(
                    GrpcCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                    f"topic {topic} takes {words}, and the message is {MessageType(wrong.kind).name}; "
                    "send it to another topic, or change the topic's type (message.type)",
                )
        if (
            not config.perm & self._settings.broker.broker_permission & Perm.WRITE
            or config.write_queue_nums < 1
        ):
            raise GrpcRefused(GrpcCode.FORBIDDEN, f"topic {topic} has no writable queue here")
        return config

    def _queue(self, config: TopicConfig, sent: list[SentMessage]) -> int:
        group = sent[0].group
        if group is not None and len(sent) == 1:
            return queue_of_group(group, config.write_queue_nums)
        self._turn += 1
        return (self._turn - 1) % config.write_queue_nums

    def _response(self, ids: Sequence[IdAndKind], answer: Answer) -> pb.SendMessageResponse:
        code = code_of_remoting(answer.code)
        if answer.code not in _STORED:
            raise GrpcRefused(code, answer.remark or code.name)
        status = OK_STATUS
        if code != GrpcCode.OK:
            status = pb.Status(code=code, message=answer.remark or code.name)
        ext = answer.ext or {}
        response = pb.SendMessageResponse(status=status)
        first = int(ext["queueOffset"])
        for number, (message_id, kind) in enumerate(ids):
            response.entries.add(
                status=status,
                message_id=message_id,
                transaction_id=_transaction_id(message_id, kind, ext),
                offset=first + number,
                recall_handle=ext.get("recallHandle", ""),
            )
        return response


def _kept_bytes(request: pb.SendMessageRequest) -> int:
    """Return what is kept of a send that waits to be safe: the ids of its messages."""
    return sum(len(message.system_properties.message_id) + _ID_BYTES for message in request.messages)


def _transaction_id(message_id: str, kind: int, ext: dict[str, str]) -> str:
    if kind != MessageType.TRANSACTION:
        return message_id
    position = parse_offset_message_id(ext["msgId"]).position
    return HalfPlace(int(ext["queueOffset"]), position).encode()


def _request_of(topic: str, queue_id: int, sent: list[SentMessage]) -> tuple[int, SendMessageV2, bytes]:
    """Return the request of remoting that stores the messages."""
    first, is_batch = sent[0], len(sent) > 1
    header = SendMessageV2(
        producer_group=topic,
        topic=topic,
        default_topic="",
        default_topic_queue_nums=0,
        queue_id=queue_id,
        sys_flag=first.sys_flag,
        born_timestamp=first.born_at_ms,
        flag=0,
        properties="" if is_batch else _text_of(first),
        batch=is_batch,
    )
    if not is_batch:
        return RequestCode.SEND_MESSAGE_V2, header, first.body
    body = encode_batch(BatchUnit(0, one.body, _text_of(one)) for one in sent)
    return RequestCode.SEND_BATCH_MESSAGE, header, body


def _text_of(sent: SentMessage) -> str:
    return names.PROPERTY_SEPARATOR.join(
        [f"{name}{names.NAME_VALUE_SEPARATOR}{value}" for name, value in sent.properties.items()]
    )
