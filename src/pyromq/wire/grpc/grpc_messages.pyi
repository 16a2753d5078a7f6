"""The messages of `service.proto`; written by tools/gen_grpc_types.py."""

from abc import ABCMeta
from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence
from typing import Self, TypeVar

from google.protobuf.message import DecodeError as DecodeError

_M = TypeVar("_M", bound="ProtoMessage")

class ProtoMessage:
    def SerializeToString(self) -> bytes: ...
    @classmethod
    def FromString(cls, data: bytes) -> Self: ...
    def ParseFromString(self, data: bytes) -> int: ...
    def ByteSize(self) -> int: ...
    def CopyFrom(self, other: Self) -> None: ...
    def MergeFrom(self, other: Self) -> None: ...
    def SetInParent(self) -> None: ...
    def HasField(self, name: str) -> bool: ...
    def ClearField(self, name: str) -> None: ...
    def WhichOneof(self, name: str) -> str | None: ...

class Repeated(MutableSequence[_M], metaclass=ABCMeta):
    def add(self, **fields: object) -> _M: ...

class Timestamp(ProtoMessage):
    seconds: int
    nanos: int
    def __init__(self, *, seconds: int = ..., nanos: int = ...) -> None: ...
    def ToMilliseconds(self) -> int: ...
    def FromMilliseconds(self, ms: int) -> None: ...

class Duration(ProtoMessage):
    seconds: int
    nanos: int
    def __init__(self, *, seconds: int = ..., nanos: int = ...) -> None: ...
    def ToMilliseconds(self) -> int: ...
    def FromMilliseconds(self, ms: int) -> None: ...

class FilterExpression(ProtoMessage):
    type: int
    expression: str
    def __init__(self, *, type: int = ..., expression: str = ...) -> None: ...

class ExponentialBackoff(ProtoMessage):
    initial: Duration
    max: Duration
    multiplier: float
    def __init__(
        self,
        *,
        initial: Duration | None = ...,
        max: Duration | None = ...,
        multiplier: float = ...,
    ) -> None: ...

class CustomizedBackoff(ProtoMessage):
    next: Repeated[Duration]
    def __init__(self, *, next: Iterable[Duration] = ...) -> None: ...

class RetryPolicy(ProtoMessage):
    max_attempts: int
    exponential_backoff: ExponentialBackoff
    customized_backoff: CustomizedBackoff
    def __init__(
        self,
        *,
        max_attempts: int = ...,
        exponential_backoff: ExponentialBackoff | None = ...,
        customized_backoff: CustomizedBackoff | None = ...,
    ) -> None: ...

class Resource(ProtoMessage):
    resource_namespace: str
    name: str
    def __init__(self, *, resource_namespace: str = ..., name: str = ...) -> None: ...

class SubscriptionEntry(ProtoMessage):
    topic: Resource
    expression: FilterExpression
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        expression: FilterExpression | None = ...,
    ) -> None: ...

class Address(ProtoMessage):
    host: str
    port: int
    def __init__(self, *, host: str = ..., port: int = ...) -> None: ...

class Endpoints(ProtoMessage):
    scheme: int
    addresses: Repeated[Address]
    def __init__(self, *, scheme: int = ..., addresses: Iterable[Address] = ...) -> None: ...

class Broker(ProtoMessage):
    name: str
    id: int
    endpoints: Endpoints
    def __init__(self, *, name: str = ..., id: int = ..., endpoints: Endpoints | None = ...) -> None: ...

class MessageQueue(ProtoMessage):
    topic: Resource
    id: int
    permission: int
    broker: Broker
    accept_message_types: MutableSequence[int]
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        id: int = ...,
        permission: int = ...,
        broker: Broker | None = ...,
        accept_message_types: Iterable[int] = ...,
    ) -> None: ...

class Digest(ProtoMessage):
    type: int
    checksum: str
    def __init__(self, *, type: int = ..., checksum: str = ...) -> None: ...

class DeadLetterQueue(ProtoMessage):
    topic: str
    message_id: str
    def __init__(self, *, topic: str = ..., message_id: str = ...) -> None: ...

class SystemProperties(ProtoMessage):
    tag: str
    keys: MutableSequence[str]
    message_id: str
    body_digest: Digest
    body_encoding: int
    message_type: int
    born_timestamp: Timestamp
    born_host: str
    store_timestamp: Timestamp
    store_host: str
    delivery_timestamp: Timestamp
    receipt_handle: str
    queue_id: int
    queue_offset: int
    invisible_duration: Duration
    delivery_attempt: int
    message_group: str
    trace_context: str
    orphaned_transaction_recovery_duration: Duration
    dead_letter_queue: DeadLetterQueue
    lite_topic: str
    priority: int
    def __init__(
        self,
        *,
        tag: str | None = ...,
        keys: Iterable[str] = ...,
        message_id: str = ...,
        body_digest: Digest | None = ...,
        body_encoding: int = ...,
        message_type: int = ...,
        born_timestamp: Timestamp | None = ...,
        born_host: str = ...,
        store_timestamp: Timestamp | None = ...,
        store_host: str = ...,
        delivery_timestamp: Timestamp | None = ...,
        receipt_handle: str | None = ...,
        queue_id: int = ...,
        queue_offset: int | None = ...,
        invisible_duration: Duration | None = ...,
        delivery_attempt: int | None = ...,
        message_group: str | None = ...,
        trace_context: str | None = ...,
        orphaned_transaction_recovery_duration: Duration | None = ...,
        dead_letter_queue: DeadLetterQueue | None = ...,
        lite_topic: str | None = ...,
        priority: int | None = ...,
    ) -> None: ...

class Message(ProtoMessage):
    topic: Resource
    user_properties: MutableMapping[str, str]
    system_properties: SystemProperties
    body: bytes
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        user_properties: Mapping[str, str] | None = ...,
        system_properties: SystemProperties | None = ...,
        body: bytes = ...,
    ) -> None: ...

class Assignment(ProtoMessage):
    message_queue: MessageQueue
    def __init__(self, *, message_queue: MessageQueue | None = ...) -> None: ...

class Status(ProtoMessage):
    code: int
    message: str
    def __init__(self, *, code: int = ..., message: str = ...) -> None: ...

class UA(ProtoMessage):
    language: int
    version: str
    platform: str
    hostname: str
    def __init__(
        self,
        *,
        language: int = ...,
        version: str = ...,
        platform: str = ...,
        hostname: str = ...,
    ) -> None: ...

class Publishing(ProtoMessage):
    topics: Repeated[Resource]
    max_body_size: int
    validate_message_type: bool
    def __init__(
        self,
        *,
        topics: Iterable[Resource] = ...,
        max_body_size: int = ...,
        validate_message_type: bool = ...,
    ) -> None: ...

class Subscription(ProtoMessage):
    group: Resource
    subscriptions: Repeated[SubscriptionEntry]
    fifo: bool
    receive_batch_size: int
    long_polling_timeout: Duration
    lite_subscription_quota: int
    max_lite_topic_size: int
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        subscriptions: Iterable[SubscriptionEntry] = ...,
        fifo: bool | None = ...,
        receive_batch_size: int | None = ...,
        long_polling_timeout: Duration | None = ...,
        lite_subscription_quota: int | None = ...,
        max_lite_topic_size: int | None = ...,
    ) -> None: ...

class Metric(ProtoMessage):
    on: bool
    endpoints: Endpoints
    def __init__(self, *, on: bool = ..., endpoints: Endpoints | None = ...) -> None: ...

class Settings(ProtoMessage):
    client_type: int
    access_point: Endpoints
    backoff_policy: RetryPolicy
    request_timeout: Duration
    publishing: Publishing
    subscription: Subscription
    user_agent: UA
    metric: Metric
    client_properties: MutableMapping[str, str]
    def __init__(
        self,
        *,
        client_type: int | None = ...,
        access_point: Endpoints | None = ...,
        backoff_policy: RetryPolicy | None = ...,
        request_timeout: Duration | None = ...,
        publishing: Publishing | None = ...,
        subscription: Subscription | None = ...,
        user_agent: UA | None = ...,
        metric: Metric | None = ...,
        client_properties: Mapping[str, str] | None = ...,
    ) -> None: ...

class OffsetOption(ProtoMessage):
    policy: int
    offset: int
    tail_n: int
    timestamp: int
    def __init__(
        self,
        *,
        policy: int = ...,
        offset: int = ...,
        tail_n: int = ...,
        timestamp: int = ...,
    ) -> None: ...

class QueryRouteRequest(ProtoMessage):
    topic: Resource
    endpoints: Endpoints
    def __init__(self, *, topic: Resource | None = ..., endpoints: Endpoints | None = ...) -> None: ...

class QueryRouteResponse(ProtoMessage):
    status: Status
    message_queues: Repeated[MessageQueue]
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message_queues: Iterable[MessageQueue] = ...,
    ) -> None: ...

class SendMessageRequest(ProtoMessage):
    messages: Repeated[Message]
    def __init__(self, *, messages: Iterable[Message] = ...) -> None: ...

class SendResultEntry(ProtoMessage):
    status: Status
    message_id: str
    transaction_id: str
    offset: int
    recall_handle: str
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message_id: str = ...,
        transaction_id: str = ...,
        offset: int = ...,
        recall_handle: str = ...,
    ) -> None: ...

class SendMessageResponse(ProtoMessage):
    status: Status
    entries: Repeated[SendResultEntry]
    def __init__(self, *, status: Status | None = ..., entries: Iterable[SendResultEntry] = ...) -> None: ...

class QueryAssignmentRequest(ProtoMessage):
    topic: Resource
    group: Resource
    endpoints: Endpoints
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        group: Resource | None = ...,
        endpoints: Endpoints | None = ...,
    ) -> None: ...

class QueryAssignmentResponse(ProtoMessage):
    status: Status
    assignments: Repeated[Assignment]
    def __init__(self, *, status: Status | None = ..., assignments: Iterable[Assignment] = ...) -> None: ...

class ReceiveMessageRequest(ProtoMessage):
    group: Resource
    message_queue: MessageQueue
    filter_expression: FilterExpression
    batch_size: int
    invisible_duration: Duration
    auto_renew: bool
    long_polling_timeout: Duration
    attempt_id: str
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        message_queue: MessageQueue | None = ...,
        filter_expression: FilterExpression | None = ...,
        batch_size: int = ...,
        invisible_duration: Duration | None = ...,
        auto_renew: bool = ...,
        long_polling_timeout: Duration | None = ...,
        attempt_id: str | None = ...,
    ) -> None: ...

class ReceiveMessageResponse(ProtoMessage):
    status: Status
    message: Message
    delivery_timestamp: Timestamp
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message: Message | None = ...,
        delivery_timestamp: Timestamp | None = ...,
    ) -> None: ...

class AckMessageEntry(ProtoMessage):
    message_id: str
    receipt_handle: str
    lite_topic: str
    def __init__(
        self,
        *,
        message_id: str = ...,
        receipt_handle: str = ...,
        lite_topic: str | None = ...,
    ) -> None: ...

class AckMessageRequest(ProtoMessage):
    group: Resource
    topic: Resource
    entries: Repeated[AckMessageEntry]
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        topic: Resource | None = ...,
        entries: Iterable[AckMessageEntry] = ...,
    ) -> None: ...

class AckMessageResultEntry(ProtoMessage):
    message_id: str
    receipt_handle: str
    status: Status
    def __init__(
        self,
        *,
        message_id: str = ...,
        receipt_handle: str = ...,
        status: Status | None = ...,
    ) -> None: ...

class AckMessageResponse(ProtoMessage):
    status: Status
    entries: Repeated[AckMessageResultEntry]
    def __init__(
        self,
        *,
        status: Status | None = ...,
        entries: Iterable[AckMessageResultEntry] = ...,
    ) -> None: ...

class ForwardMessageToDeadLetterQueueRequest(ProtoMessage):
    group: Resource
    topic: Resource
    receipt_handle: str
    message_id: str
    delivery_attempt: int
    max_delivery_attempts: int
    lite_topic: str
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        topic: Resource | None = ...,
        receipt_handle: str = ...,
        message_id: str = ...,
        delivery_attempt: int = ...,
        max_delivery_attempts: int = ...,
        lite_topic: str | None = ...,
    ) -> None: ...

class ForwardMessageToDeadLetterQueueResponse(ProtoMessage):
    status: Status
    def __init__(self, *, status: Status | None = ...) -> None: ...

class HeartbeatRequest(ProtoMessage):
    group: Resource
    client_type: int
    def __init__(self, *, group: Resource | None = ..., client_type: int = ...) -> None: ...

class HeartbeatResponse(ProtoMessage):
    status: Status
    def __init__(self, *, status: Status | None = ...) -> None: ...

class EndTransactionRequest(ProtoMessage):
    topic: Resource
    message_id: str
    transaction_id: str
    resolution: int
    source: int
    trace_context: str
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        message_id: str = ...,
        transaction_id: str = ...,
        resolution: int = ...,
        source: int = ...,
        trace_context: str = ...,
    ) -> None: ...

class EndTransactionResponse(ProtoMessage):
    status: Status
    def __init__(self, *, status: Status | None = ...) -> None: ...

class NotifyClientTerminationRequest(ProtoMessage):
    group: Resource
    def __init__(self, *, group: Resource | None = ...) -> None: ...

class NotifyClientTerminationResponse(ProtoMessage):
    status: Status
    def __init__(self, *, status: Status | None = ...) -> None: ...

class ChangeInvisibleDurationRequest(ProtoMessage):
    group: Resource
    topic: Resource
    receipt_handle: str
    invisible_duration: Duration
    message_id: str
    lite_topic: str
    suspend: bool
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        topic: Resource | None = ...,
        receipt_handle: str = ...,
        invisible_duration: Duration | None = ...,
        message_id: str = ...,
        lite_topic: str | None = ...,
        suspend: bool | None = ...,
    ) -> None: ...

class ChangeInvisibleDurationResponse(ProtoMessage):
    status: Status
    receipt_handle: str
    def __init__(self, *, status: Status | None = ..., receipt_handle: str = ...) -> None: ...

class PullMessageRequest(ProtoMessage):
    group: Resource
    message_queue: MessageQueue
    offset: int
    batch_size: int
    filter_expression: FilterExpression
    long_polling_timeout: Duration
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        message_queue: MessageQueue | None = ...,
        offset: int = ...,
        batch_size: int = ...,
        filter_expression: FilterExpression | None = ...,
        long_polling_timeout: Duration | None = ...,
    ) -> None: ...

class PullMessageResponse(ProtoMessage):
    status: Status
    message: Message
    next_offset: int
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message: Message | None = ...,
        next_offset: int = ...,
    ) -> None: ...

class UpdateOffsetRequest(ProtoMessage):
    group: Resource
    message_queue: MessageQueue
    offset: int
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        message_queue: MessageQueue | None = ...,
        offset: int = ...,
    ) -> None: ...

class UpdateOffsetResponse(ProtoMessage):
    status: Status
    def __init__(self, *, status: Status | None = ...) -> None: ...

class GetOffsetRequest(ProtoMessage):
    group: Resource
    message_queue: MessageQueue
    def __init__(self, *, group: Resource | None = ..., message_queue: MessageQueue | None = ...) -> None: ...

class GetOffsetResponse(ProtoMessage):
    status: Status
    offset: int
    def __init__(self, *, status: Status | None = ..., offset: int = ...) -> None: ...

class QueryOffsetRequest(ProtoMessage):
    message_queue: MessageQueue
    query_offset_policy: int
    timestamp: Timestamp
    def __init__(
        self,
        *,
        message_queue: MessageQueue | None = ...,
        query_offset_policy: int = ...,
        timestamp: Timestamp | None = ...,
    ) -> None: ...

class QueryOffsetResponse(ProtoMessage):
    status: Status
    offset: int
    def __init__(self, *, status: Status | None = ..., offset: int = ...) -> None: ...

class RecallMessageRequest(ProtoMessage):
    topic: Resource
    recall_handle: str
    def __init__(self, *, topic: Resource | None = ..., recall_handle: str = ...) -> None: ...

class RecallMessageResponse(ProtoMessage):
    status: Status
    message_id: str
    def __init__(self, *, status: Status | None = ..., message_id: str = ...) -> None: ...

class SyncLiteSubscriptionRequest(ProtoMessage):
    action: int
    topic: Resource
    group: Resource
    lite_topic_set: MutableSequence[str]
    version: int
    offset_option: OffsetOption
    def __init__(
        self,
        *,
        action: int = ...,
        topic: Resource | None = ...,
        group: Resource | None = ...,
        lite_topic_set: Iterable[str] = ...,
        version: int | None = ...,
        offset_option: OffsetOption | None = ...,
    ) -> None: ...

class SyncLiteSubscriptionResponse(ProtoMessage):
    status: Status
    def __init__(self, *, status: Status | None = ...) -> None: ...

class ThreadStackTrace(ProtoMessage):
    nonce: str
    thread_stack_trace: str
    def __init__(self, *, nonce: str = ..., thread_stack_trace: str | None = ...) -> None: ...

class VerifyMessageResult(ProtoMessage):
    nonce: str
    def __init__(self, *, nonce: str = ...) -> None: ...

class RecoverOrphanedTransactionCommand(ProtoMessage):
    message: Message
    transaction_id: str
    def __init__(self, *, message: Message | None = ..., transaction_id: str = ...) -> None: ...

class PrintThreadStackTraceCommand(ProtoMessage):
    nonce: str
    def __init__(self, *, nonce: str = ...) -> None: ...

class ReconnectEndpointsCommand(ProtoMessage):
    nonce: str
    def __init__(self, *, nonce: str = ...) -> None: ...

class VerifyMessageCommand(ProtoMessage):
    nonce: str
    message: Message
    def __init__(self, *, nonce: str = ..., message: Message | None = ...) -> None: ...

class NotifyUnsubscribeLiteCommand(ProtoMessage):
    lite_topic: str
    def __init__(self, *, lite_topic: str = ...) -> None: ...

class TelemetryCommand(ProtoMessage):
    status: Status
    settings: Settings
    thread_stack_trace: ThreadStackTrace
    verify_message_result: VerifyMessageResult
    recover_orphaned_transaction_command: RecoverOrphanedTransactionCommand
    print_thread_stack_trace_command: PrintThreadStackTraceCommand
    verify_message_command: VerifyMessageCommand
    reconnect_endpoints_command: ReconnectEndpointsCommand
    notify_unsubscribe_lite_command: NotifyUnsubscribeLiteCommand
    def __init__(
        self,
        *,
        status: Status | None = ...,
        settings: Settings | None = ...,
        thread_stack_trace: ThreadStackTrace | None = ...,
        verify_message_result: VerifyMessageResult | None = ...,
        recover_orphaned_transaction_command: RecoverOrphanedTransactionCommand | None = ...,
        print_thread_stack_trace_command: PrintThreadStackTraceCommand | None = ...,
        verify_message_command: VerifyMessageCommand | None = ...,
        reconnect_endpoints_command: ReconnectEndpointsCommand | None = ...,
        notify_unsubscribe_lite_command: NotifyUnsubscribeLiteCommand | None = ...,
    ) -> None: ...
