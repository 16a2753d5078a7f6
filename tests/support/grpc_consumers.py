"""A consumer of RocketMQ 5's gRPC protocol, call by call: tests say what an SDK does by itself."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from grpc_sdk import CALL_S, Sdk, resource, sdk_of

from pyromq.testing.cluster import Cluster
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode
from pyromq.wire.grpc.grpc_times import duration_of, ms_of

GROUP, TOPIC = "readers", "Orders"
INVISIBLE_MS = 60_000
#: Of a found stream, of one that found nothing.
FOUND_ONE = ["status", "message", "delivery_timestamp"]
NOT_FOUND = ["status", "delivery_timestamp"]


@dataclass(frozen=True, slots=True)
class Received:
    """All that a stream of messages said."""

    code: int
    text: str
    messages: list[pb.Message]
    #: In milliseconds; None: the stream did not say.
    delivered_at_ms: int | None
    #: The words for what came, in its order.
    contents: list[str]

    @property
    def name(self) -> str:
        """The code's name, which says more than its number when a test fails."""
        return GrpcCode(self.code).name

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    @property
    def handles(self) -> list[str]:
        return [message.system_properties.receipt_handle for message in self.messages]

    @property
    def handle(self) -> str:
        [handle] = self.handles
        return handle

    @property
    def body(self) -> bytes:
        [body] = self.bodies
        return body

    @property
    def attempts(self) -> list[int]:
        return [message.system_properties.delivery_attempt for message in self.messages]


@dataclass
class GrpcConsumer:
    """One client of a group."""

    sdk: Sdk
    group: str = GROUP
    topic: str = TOPIC

    def asks(
        self,
        *,
        batch: int = 32,
        invisible_ms: int | None = INVISIBLE_MS,
        polling_ms: int | None = 5_000,
        tags: str = "*",
        sql: str | None = None,
        renew: bool = False,
        attempt_id: str | None = None,
        queue_id: int = -1,
    ) -> pb.ReceiveMessageRequest:
        expression = pb.FilterExpression(type=1, expression=tags)
        if sql is not None:
            expression = pb.FilterExpression(type=2, expression=sql)
        request = pb.ReceiveMessageRequest(
            group=resource(self.group),
            message_queue=pb.MessageQueue(topic=resource(self.topic), id=queue_id),
            filter_expression=expression,
            batch_size=batch,
            auto_renew=renew,
        )
        if invisible_ms is not None:
            request.invisible_duration.CopyFrom(duration_of(invisible_ms))
        if polling_ms is not None:
            request.long_polling_timeout.CopyFrom(duration_of(polling_ms))
        if attempt_id is not None:
            request.attempt_id = attempt_id
        return request

    def begin(self, *, timeout: float | None = CALL_S, **asked: Any) -> Any:
        """Begin a receive, and return its call."""
        return self.sdk.receive("ReceiveMessage", self.asks(**asked), timeout=timeout)

    async def receive(self, *, timeout: float | None = CALL_S, **asked: Any) -> Received:
        """Receive messages, and return all that the stream said."""
        return await self.take(self.asks(**asked), timeout=timeout)

    async def take(self, request: pb.ReceiveMessageRequest, *, timeout: float | None = CALL_S) -> Received:
        return received([each async for each in self.sdk.receive("ReceiveMessage", request, timeout=timeout)])

    async def receive_all(self, count: int, **asked: Any) -> Received:
        """Receive until so many messages came, and return them as if they had come at once."""
        responses: list[pb.ReceiveMessageResponse] = []
        last: list[pb.ReceiveMessageResponse] = []
        while len(responses) < count:
            last = [each async for each in self.begin(**asked)]
            responses += [each for each in last if each.HasField("message")]
        return received([last[0], *responses, last[-1]])

    async def ack(self, *handles: str) -> pb.AckMessageResponse:
        entries = [
            pb.AckMessageEntry(message_id=f"id-{number}", receipt_handle=handle)
            for number, handle in enumerate(handles)
        ]
        return await self._call("AckMessage", pb.AckMessageRequest(entries=entries))  # type: ignore[no-any-return]

    async def change(self, handle: str, invisible_ms: int | None) -> pb.ChangeInvisibleDurationResponse:
        request = pb.ChangeInvisibleDurationRequest(receipt_handle=handle, message_id="id")
        if invisible_ms is not None:
            request.invisible_duration.CopyFrom(duration_of(invisible_ms))
        return await self._call("ChangeInvisibleDuration", request)  # type: ignore[no-any-return]

    async def forward(self, handle: str) -> pb.Status:
        request = pb.ForwardMessageToDeadLetterQueueRequest(
            receipt_handle=handle, message_id="id", delivery_attempt=1, max_delivery_attempts=1
        )
        return (await self._call("ForwardMessageToDeadLetterQueue", request)).status  # type: ignore[no-any-return]

    async def leave(self) -> pb.Status:
        request = pb.NotifyClientTerminationRequest(group=resource(self.group))
        return (await self.sdk.call("NotifyClientTermination", request)).status  # type: ignore[no-any-return]

    async def heartbeat(self, client_type: int = 3) -> pb.Status:
        request = pb.HeartbeatRequest(group=resource(self.group), client_type=client_type)
        return (await self.sdk.call("Heartbeat", request)).status  # type: ignore[no-any-return]

    async def _call(self, name: str, request: Any) -> Any:
        request.group.CopyFrom(resource(self.group))
        request.topic.CopyFrom(resource(self.topic))
        return await self.sdk.call(name, request)


def received(responses: Sequence[pb.ReceiveMessageResponse]) -> Received:
    """Return what the messages of a stream say together."""
    contents = [each.WhichOneof("content") or "nothing" for each in responses]
    statuses = [each.status for each in responses if each.HasField("status")]
    times = [ms_of(each.delivery_timestamp) for each in responses if each.HasField("delivery_timestamp")]
    return Received(
        statuses[0].code if statuses else 0,
        statuses[0].message if statuses else "",
        [each.message for each in responses if each.HasField("message")],
        times[-1] if times else None,
        contents,
    )


def name_of(status: pb.Status) -> str:
    """Return the name of a status's code."""
    return GrpcCode(status.code).name


@asynccontextmanager
async def consumer_of(
    cluster: Cluster,
    client_id: str | None = "consumer",
    *,
    group: str = GROUP,
    topic: str = TOPIC,
    **headers: str,
) -> AsyncIterator[GrpcConsumer]:
    """Return a consumer of a cluster's first broker."""
    async with sdk_of(cluster, client_id, **headers) as sdk:
        yield GrpcConsumer(sdk, group, topic)
