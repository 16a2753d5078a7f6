"""FastStream's test broker: what is published goes to the handlers that want it, in this process."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import MagicMock

from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.parser import DefaultCodec
from faststream._internal.testing.broker import EnterType, TestBroker, change_producer
from faststream.exceptions import SubscriberNotFound

from pyromq.client.producer.arrived import arrived
from pyromq.faststream.rocket_broker import RocketBroker
from pyromq.faststream.rocket_endpoints import RocketSubscriber
from pyromq.faststream.rocket_messages import RawMessage, RocketCommand, RocketParser
from pyromq.faststream.rocket_producer import REQUEST_S, RocketProducer
from pyromq.filter.tags import parse_tags, wants_all
from pyromq.model import MessageQueue, ReceivedMessage, SendResult, SendStatus
from pyromq.wire.properties import REPLY_TO_CLIENT


class TestRocketBroker(TestBroker[RocketBroker, EnterType], broker=RocketBroker):
    """A `RocketBroker` without servers; each group gets a message once. Tags are looked at, SQL is not."""

    __test__ = False

    def create_publisher_fake_subscriber(self, broker: RocketBroker, publisher: Any) -> tuple[Any, bool]:
        """Return the subscriber that gets what a publisher publishes, and whether it is the application's."""
        for each in (one for found in self.brokers for one in found.subscribers):
            if isinstance(each, RocketSubscriber) and each.topic == publisher.topic:
                return each, True
        return broker.subscriber(publisher.topic, persistent=False), False

    def _fake_start(self, broker: RocketBroker, *args: Any, **kwargs: Any) -> None:
        # With a real broker only what mocks see is arranged here.
        broker.config.broker_config.is_tested = not self.with_real
        super()._fake_start(broker, *args, **kwargs)

    @contextmanager
    def _patch_producer(self, broker: RocketBroker) -> Generator[None, None, None]:
        settings = broker.config.broker_config
        try:
            with change_producer(settings, InMemoryProducer(broker, self.brokers)):
                yield
        finally:
            settings.is_tested = False

    async def _fake_connect(self, broker: RocketBroker, *args: Any, **kwargs: Any) -> Any:
        broker.config.broker_config.is_tested = True
        return MagicMock()


class InMemoryProducer(RocketProducer):
    """Gives messages to subscribers of this process."""

    def __init__(self, broker: RocketBroker, brokers: Sequence[RocketBroker]) -> None:
        super().__init__()
        default = RocketParser()
        self._broker = broker
        self._brokers = brokers
        self._parser = ParserComposition(broker._parser, default.parse_message)
        self._decoder = ParserComposition(broker._decoder, default.decode_message)
        self.codec = broker.config.broker_config.broker_codec or DefaultCodec()
        self._sent = 0
        #: Replies by the id of the request, until that has them.
        self._replies: dict[str, RawMessage] = {}

    async def publish(self, cmd: RocketCommand) -> SendResult:
        """Have one subscriber of each group handle a message, or keep the reply to a request."""
        raw = await self._raw(cmd)
        if cmd.request is not None:
            self._replies[cmd.request.message_id] = raw
            return self._result(raw.message)
        groups: set[tuple[str, str]] = set()
        for subscriber in self._wanting(raw.message):
            place = (subscriber.group, subscriber.topic)
            if subscriber.wanted.model == "broadcasting" or place not in groups:
                groups.add(place)
                await subscriber.process_message(RawMessage(raw.message))
        return self._result(raw.message)

    async def request(self, cmd: RocketCommand) -> RawMessage:
        """Have a subscriber handle a request, and return its reply, which is published as on a cluster."""
        raw = await self._raw(cmd)
        raw.message.properties[REPLY_TO_CLIENT] = "this process"
        for subscriber in self._wanting(raw.message):
            async with asyncio.timeout(cmd.timeout or REQUEST_S):
                await subscriber.process_message(raw)
            reply = self._replies.pop(raw.message.message_id, None)
            if reply is None:
                raise TimeoutError(f"the handler of {cmd.destination} gave no reply")
            return reply
        raise SubscriberNotFound

    def _result(self, message: ReceivedMessage) -> SendResult:
        return SendResult(
            SendStatus.SEND_OK, message.message_id, message.message_id, message.queue, self._sent
        )

    def _wanting(self, message: ReceivedMessage) -> list[RocketSubscriber]:
        found: list[RocketSubscriber] = []
        for each in (one for broker in self._brokers for one in broker.subscribers):
            if isinstance(each, RocketSubscriber) and each.topic == message.topic:
                tags = each.wanted.tags
                if wants_all(tags) or message.tags in parse_tags(tags):
                    found.append(each)
        return found

    async def _raw(self, cmd: RocketCommand) -> RawMessage:
        body, content_type = await self.codec.encode(cmd.body, self._broker.config.fd_config._serializer)
        self._sent += 1
        message, queue = cmd.message(body, content_type), MessageQueue(cmd.destination, "test", 0)
        return RawMessage(arrived(message, queue, self._sent, f"{self._sent:032X}"))
