"""A client of RocketMQ 5's gRPC protocol by hand, over grpcio: each RPC, headers at will, Telemetry."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import grpc

from pyromq.broker.broker import Broker
from pyromq.broker.grpc.grpc_door import GrpcDoor
from pyromq.testing.cluster import Cluster
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_times import timestamp_of

SERVICE = "/apache.rocketmq.v2.MessagingService/"
#: Seconds that a call may take; spent only when a test fails.
CALL_S = 30.0
UNARY = (
    "QueryRoute",
    "Heartbeat",
    "SendMessage",
    "QueryAssignment",
    "AckMessage",
    "ChangeInvisibleDuration",
    "ForwardMessageToDeadLetterQueue",
    "EndTransaction",
    "NotifyClientTermination",
    "RecallMessage",
    "UpdateOffset",
    "GetOffset",
    "QueryOffset",
    "SyncLiteSubscription",
)
STREAMED = ("ReceiveMessage", "PullMessage")


def signed(access_key: str, secret: str, date_time: str, *, is_upper: bool = False) -> dict[str, str]:
    """Return the headers of an account."""
    signature = hmac.digest(secret.encode(), date_time.encode(), "sha1").hex()
    return {
        "x-mq-date-time": date_time,
        "authorization": f"MQv2-HMAC-SHA1 Credential={access_key}, SignedHeaders=x-mq-date-time, "
        f"Signature={signature.upper() if is_upper else signature}",
    }


async def door_of(broker: Broker) -> GrpcDoor:
    """Return what serves gRPC at a broker; it is loaded by the first connection, so make one."""
    _, writer = await asyncio.open_connection("127.0.0.1", broker.grpc.port)
    try:
        await aeventually(lambda: broker.grpc.door is not None, CALL_S, what="gRPC is loaded")
    finally:
        writer.close()
    door = broker.grpc.door
    assert door is not None
    return door


def resource(name: str) -> pb.Resource:
    return pb.Resource(name=name)


def endpoints(port: int = 8081) -> pb.Endpoints:
    return pb.Endpoints(scheme=1, addresses=[pb.Address(host="127.0.0.1", port=port)])


def message(topic: str, body: bytes = b"hello", message_id: str = "ID", **system: Any) -> pb.Message:
    properties = pb.SystemProperties(
        message_id=message_id, born_timestamp=timestamp_of(1_700_000_000_000), **system
    )
    return pb.Message(topic=resource(topic), body=body, system_properties=properties)


class SdkStream:
    """A Telemetry stream."""

    def __init__(self, call: Any) -> None:
        self._call = call

    async def say(self, command: pb.TelemetryCommand) -> None:
        await self._call.write(command)

    async def settings(self, settings: pb.Settings) -> pb.TelemetryCommand:
        """Send settings, and return what comes."""
        await self.say(pb.TelemetryCommand(settings=settings))
        return await self.next()

    async def next(self) -> pb.TelemetryCommand:
        """Return the next command; raise EOFError at the end of the stream."""
        command = await self._call.read()
        if command is grpc.aio.EOF:
            raise EOFError
        assert isinstance(command, pb.TelemetryCommand)
        return command

    async def half_close(self) -> None:
        await self._call.done_writing()

    async def code(self) -> str:
        """Return the gRPC status that the stream ended with."""
        return str((await self._call.code()).name)

    def cancel(self) -> None:
        self._call.cancel()


class Sdk:
    """One client: an id, headers, and a channel."""

    def __init__(self, address: str, client_id: str | None = "client", **headers: str) -> None:
        # A connection of its own: grpcio shares them among channels.
        options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.aio.insecure_channel(address, options=options)
        self.headers: dict[str, str] = {"x-mq-language": "JAVA", "x-mq-client-version": "5.1.0"}
        if client_id is not None:
            self.headers["x-mq-client-id"] = client_id
        self.headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        self._methods: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def call(self, name: str, request: Any, *, timeout: float = CALL_S) -> Any:
        """Make a call with one answer."""
        return await self._method(name)(request, metadata=self._metadata(), timeout=timeout)

    def receive(self, name: str, request: Any, *, timeout: float | None = CALL_S) -> Any:
        """Begin a call with a stream of answers."""
        return self._method(name)(request, metadata=self._metadata(), timeout=timeout)

    async def send(self, *messages: pb.Message) -> pb.SendMessageResponse:
        response = await self.call("SendMessage", pb.SendMessageRequest(messages=messages))
        assert isinstance(response, pb.SendMessageResponse)
        return response

    async def stored(self, sent: pb.Message) -> pb.SendResultEntry:
        """Send a message that must be taken, and return its receipt."""
        response = await self.send(sent)
        assert response.status.code == 20000, response.status
        [entry] = response.entries
        return entry

    def telemetry(self) -> SdkStream:
        return SdkStream(self._method("Telemetry")(metadata=self._metadata()))

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return tuple(self.headers.items())

    def _method(self, name: str) -> Any:
        if name not in self._methods:
            make = (
                self._channel.unary_unary
                if name in UNARY
                else self._channel.unary_stream
                if name in STREAMED
                else self._channel.stream_stream
            )
            answer = pb.TelemetryCommand if name == "Telemetry" else getattr(pb, f"{name}Response")
            self._methods[name] = make(
                f"{SERVICE}{name}",
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=answer.FromString,
            )
        return self._methods[name]


def producer_settings(*topics: str, **fields: Any) -> pb.Settings:
    return pb.Settings(
        client_type=1,
        publishing=pb.Publishing(topics=[resource(topic) for topic in topics], validate_message_type=True),
        user_agent=pb.UA(language=1, version="5.1.0"),
        **fields,
    )


def consumer_settings(
    group: str, subscriptions: Mapping[str, str] | None = None, *, client_type: int = 3, **fields: Any
) -> pb.Settings:
    entries = [
        pb.SubscriptionEntry(topic=resource(topic), expression=pb.FilterExpression(type=1, expression=text))
        for topic, text in (subscriptions or {}).items()
    ]
    subscription = pb.Subscription(group=resource(group), subscriptions=entries)
    return pb.Settings(client_type=client_type, subscription=subscription, **fields)


def put_topic(
    cluster: Cluster, topic: str, *, queues: int = 4, kind: str | None = None, **fields: Any
) -> None:
    """Create a topic on each broker, with a type if one is given."""
    attributes = None if kind is None else {"message.type": kind}
    counts = {"read_queue_nums": queues, "write_queue_nums": queues} | fields
    for broker in cluster.brokers.values():
        broker.topics.put(TopicConfig(topic_name=topic, attributes=attributes, **counts))


@asynccontextmanager
async def sdk_of(cluster: Cluster, client_id: str | None = "client", **headers: str) -> AsyncIterator[Sdk]:
    """Return a client of a cluster's first broker."""
    async with Sdk(cluster.grpc_addresses[0], client_id, **headers) as sdk:
        yield sdk
