"""Subscribers on push consumers, publishers, and what AsyncAPI says of both."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from faststream._internal.configs import (
    BrokerConfig,
    PublisherSpecificationConfig,
    PublisherUsecaseConfig,
    SubscriberSpecificationConfig,
    SubscriberUsecaseConfig,
)
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.publisher import PublisherSpecification, PublisherUsecase
from faststream._internal.endpoint.publisher.fake import FakePublisher
from faststream._internal.endpoint.subscriber import SubscriberSpecification, SubscriberUsecase
from faststream._internal.endpoint.utils import process_msg
from faststream.middlewares import AckPolicy
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message, Operation, PublisherSpec, SubscriberSpec

from pyromq import aio
from pyromq.client.push.delivery import Delivery
from pyromq.faststream.rocket_messages import (
    RawMessage,
    RocketCommand,
    RocketMessage,
    RocketParser,
    Settlement,
)
from pyromq.faststream.rocket_producer import NoProducer, RocketProducer
from pyromq.model import ConsumeFrom, ReceivedMessage
from pyromq.wire.properties import REPLY_TO_CLIENT

#: Milliseconds until a message comes again that `get_one` took and its caller did not want.
AGAIN_MS = 1_000


@dataclass(kw_only=True)
class RocketConfig(BrokerConfig):
    """The settings that a broker or a router gives its subscribers and publishers."""

    producer: RocketProducer = field(default_factory=NoProducer)
    name_server: str | None = None
    group: str = ""
    #: Whether `TestRocketBroker` stands in for a broker.
    is_tested: bool = False


@dataclass(frozen=True, slots=True)
class WantedMessages:
    """The messages that a subscriber wants, and how."""

    topic: str
    group: str | None = None
    tags: str = "*"
    sql: str | None = None
    mode: str = "pull"
    model: str = "clustering"
    ordered: bool = False
    concurrency: int = 20
    retries: int = 16
    consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET


@dataclass(kw_only=True)
class RocketSubscriberConfig(SubscriberUsecaseConfig):
    """The configuration of a subscriber."""

    _outer_config: RocketConfig = field(default_factory=RocketConfig)
    wanted: WantedMessages

    @property
    def ack_policy(self) -> AckPolicy:
        """The meaning of a handler's end; by default a failure has the message come again."""
        for policy in (self._ack_policy, self._outer_config.ack_policy):
            if policy is not EMPTY:
                return policy
        return AckPolicy.NACK_ON_ERROR


@dataclass(kw_only=True)
class RocketSubscriberSpecConfig(SubscriberSpecificationConfig):
    """The facts that AsyncAPI is told of a subscriber."""

    topic: str


class RocketSubscriberSpec(SubscriberSpecification[RocketConfig, RocketSubscriberSpecConfig]):
    """AsyncAPI of a subscriber."""

    @property
    def topic(self) -> str:
        """The topic."""
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def channel_labels(self) -> list[str]:
        """The names of what is read."""
        return [self.topic]

    def get_schema(self) -> dict[str, SubscriberSpec]:
        """Return what AsyncAPI says."""
        message = Message(title=f"{self.name}:Message", payload=resolve_payloads(self.get_payloads()))
        return {
            self.name: SubscriberSpec(
                address=self.topic,
                description=self.description,
                operation=Operation(message=message, bindings=None),
                bindings=None,
            )
        }


class ReplyPublisher(FakePublisher):
    """Publishes what a handler returns to whoever asked."""

    def __init__(self, producer: RocketProducer, topic: str, request: ReceivedMessage | None) -> None:
        super().__init__(producer=producer)
        self._topic = topic
        self._request = request

    def patch_command(self, cmd: Any) -> RocketCommand:
        """Address a command."""
        patched = RocketCommand.from_cmd(super().patch_command(cmd))
        patched.destination = self._topic
        patched.request = self._request
        return patched


class RocketSubscriber(SubscriberUsecase[RawMessage]):
    """Calls its handlers with the messages of a topic, by a push consumer."""

    _outer_config: RocketConfig

    def __init__(self, config: RocketSubscriberConfig, specification: Any, calls: Any) -> None:
        parser = RocketParser()
        config.parser = parser.parse_message
        config.decoder = parser.decode_message
        super().__init__(config, specification, calls)
        self.wanted = config.wanted
        self._consumer: aio.PushConsumer | None = None
        self._getter: aio.SimpleConsumer | None = None
        #: Tasks in which handlers run now.
        self._calling: set[asyncio.Task[Any] | None] = set()
        #: The end of a consumer that a handler of its own has stopped.
        self._closing: asyncio.Task[None] | None = None

    @property
    def topic(self) -> str:
        """The topic, with the prefixes of its routers."""
        return f"{self._outer_config.prefix}{self.wanted.topic}"

    @property
    def group(self) -> str:
        """The consumer group: its own, or the broker's and the topic's."""
        return self.wanted.group or f"{self._outer_config.group}-{self.topic}"

    async def start(self) -> None:
        """Join the group, and call handlers from now on; if it does already, do nothing."""
        if self._consumer is not None:
            return
        await super().start()
        if self.calls and not self._outer_config.is_tested:
            wanted = self.wanted
            self._consumer = aio.PushConsumer(
                self.group,
                self._outer_config.name_server,
                listener=self._handle,
                mode=wanted.mode,
                model=wanted.model,
                order="orderly" if wanted.ordered else "concurrent",
                consume_from=wanted.consume_from,
                consume_thread_min=wanted.concurrency,
                consume_thread_max=wanted.concurrency,
                max_reconsume_times=wanted.retries,
            )
            self._consumer.subscribe(self.topic, wanted.tags, sql=wanted.sql)
            await self._consumer.start()
        self._post_start()

    async def stop(self) -> None:
        """Take nothing more, wait for handlers that run, and leave the group.

        A handler that stops its own subscriber (StopConsume) is not waited for: it would wait for itself.
        """
        self.running = False
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            self._closing = asyncio.create_task(consumer.close(), name=f"close {self.group}")
        if self._closing is not None and asyncio.current_task() not in self._calling:
            await self._closing
            self._closing = None
        getter, self._getter = self._getter, None
        if getter is not None:
            await getter.close()
        await super().stop()

    async def _handle(self, message: ReceivedMessage, delivery: Delivery) -> bool:
        raw = RawMessage(message)
        task = asyncio.current_task()
        self._calling.add(task)
        try:
            await self.consume(raw)
        finally:
            self._calling.discard(task)
        verdict = raw.verdict or Settlement.AGAIN
        if verdict is Settlement.DEAD:
            delivery.delay_level = -1
        return verdict is Settlement.DONE

    def _make_response_publisher(self, message: Any) -> Sequence[Any]:
        raw = message.raw_message
        request = raw.message if REPLY_TO_CLIENT in raw.message.properties else None
        topic = message.reply_to if request is None else ""
        return (ReplyPublisher(self._outer_config.producer, topic, request),)

    def get_log_context(self, message: Any) -> dict[str, str]:
        """Return what log lines begin with."""
        return {"topic": self.topic, "message_id": getattr(message, "message_id", "")}

    async def get_one(self, *, timeout: float = 5.0) -> RocketMessage | None:
        """Return the next message, or None; acknowledge it yourself. Brokers must know POP."""
        if self.calls:
            # As FastStream's other brokers do.
            raise AssertionError("this subscriber has handlers, which get its messages; use another one")
        getter = self._getter or await self._new_getter()
        received = await getter.receive(1, wait_ms=int(timeout * 1_000))
        raw = RawMessage(received[0], settle=_settling(getter, received[0])) if received else None
        context = self._outer_config.context
        parser, decoder = self._get_parser_and_decoder()
        found: Any = await process_msg(
            msg=raw,
            middlewares=(one(raw, context=context) for one in self._broker_middlewares),
            parser=parser,
            decoder=decoder,
        )
        return cast(RocketMessage | None, found)

    async def __aiter__(self) -> AsyncIterator[RocketMessage]:
        """Give the next messages, without end."""
        while True:
            message = await self.get_one()
            if message is not None:
                yield message

    async def _new_getter(self) -> aio.SimpleConsumer:
        self._getter = getter = aio.SimpleConsumer(
            self.group, self._outer_config.name_server, consume_from=self.wanted.consume_from
        )
        getter.subscribe(self.topic, self.wanted.tags, sql=self.wanted.sql)
        await getter.start()
        return getter


def _settling(getter: aio.SimpleConsumer, message: ReceivedMessage) -> Any:
    async def settle(verdict: Settlement) -> None:
        if verdict is Settlement.AGAIN:
            await getter.change_invisible_duration(message, AGAIN_MS)
        else:
            await getter.ack(message)

    return settle


@dataclass(kw_only=True)
class RocketPublisherConfig(PublisherUsecaseConfig):
    """The configuration of a publisher."""

    _outer_config: RocketConfig = field(default_factory=RocketConfig)
    topic: str
    tags: str | None = None
    headers: dict[str, str] | None = None


@dataclass(kw_only=True)
class RocketPublisherSpecConfig(PublisherSpecificationConfig):
    """The facts that AsyncAPI is told of a publisher."""

    topic: str


class RocketPublisherSpec(PublisherSpecification[RocketConfig, RocketPublisherSpecConfig]):
    """AsyncAPI of a publisher."""

    @property
    def topic(self) -> str:
        """The topic."""
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def name(self) -> str:
        """The name of the channel."""
        return self.config.title_ or f"{self.topic}:Publisher"

    def get_schema(self) -> dict[str, PublisherSpec]:
        """Return what AsyncAPI says."""
        payload = resolve_payloads(self.get_payloads(), "Publisher")
        message = Message(title=f"{self.name}:Message", payload=payload)
        return {
            self.name: PublisherSpec(
                address=self.topic,
                description=self.config.description_,
                operation=Operation(message=message, bindings=None),
                bindings=None,
            )
        }


class RocketPublisher(PublisherUsecase):
    """Publishes to one topic."""

    _outer_config: RocketConfig

    def __init__(self, config: RocketPublisherConfig, specification: Any) -> None:
        super().__init__(config, specification)
        self._topic = config.topic
        self._tags = config.tags
        self.headers = config.headers or {}

    @property
    def topic(self) -> str:
        """The topic, with the prefixes of its routers."""
        return f"{self._outer_config.prefix}{self._topic}"

    async def publish(self, message: Any, topic: str = "", **options: Any) -> Any:
        """Publish a message; the options are those of `RocketBroker.publish`."""
        cmd = RocketCommand(message, topic=topic or self.topic, **options)
        return await self._basic_publish(
            self._completed(cmd), producer=self._outer_config.producer, _extra_middlewares=()
        )

    async def _publish(self, cmd: Any, *, _extra_middlewares: Iterable[Any]) -> None:
        """Publish what a handler returned."""
        ours = RocketCommand.from_cmd(cmd)
        ours.destination = self.topic
        await self._basic_publish(
            self._completed(ours), producer=self._outer_config.producer, _extra_middlewares=_extra_middlewares
        )

    async def request(
        self, message: Any, topic: str = "", *, timeout: float | None = None, **options: Any
    ) -> Any:
        """Send a request, and return the reply."""
        cmd = RocketCommand(message, topic=topic or self.topic, timeout=timeout, **options)
        return await self._basic_request(self._completed(cmd), producer=self._outer_config.producer)

    def _completed(self, cmd: RocketCommand) -> RocketCommand:
        cmd.add_headers(self.headers, override=False)
        cmd.tags = cmd.tags or self._tags
        cmd.correlation_id = cmd.correlation_id or self._outer_config.id_generator()
        return cmd
