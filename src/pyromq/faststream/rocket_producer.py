"""Publishing and requests, on the awaitable producer."""

from typing import Any, Protocol

from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.parser import DefaultCodec
from faststream._internal.producer import ProducerProto
from faststream.exceptions import FeatureNotSupportedException, IncorrectState

from pyromq import aio
from pyromq.client.producer.queue_choice import select_by_hash
from pyromq.client.producer.request_reply import reply_to
from pyromq.errors import RequestTimeout
from pyromq.faststream.rocket_messages import RawMessage, RocketCommand, RocketParser
from pyromq.model import SendResult

#: Seconds that a request waits for its reply unless it is told otherwise.
REQUEST_S = 3.0


class Codec(Protocol):
    """Whatever makes bytes of a body."""

    async def encode(self, body: Any, serializer: Any) -> tuple[bytes, str | None]:
        """Return bytes, and what they are."""
        ...


class RocketProducer(ProducerProto[RocketCommand]):
    """Publishes commands."""

    def __init__(self, parser: Any = None, decoder: Any = None) -> None:
        default = RocketParser()
        self.serializer: Any = None
        self.codec: Any = DefaultCodec()
        self._parser = ParserComposition(parser, default.parse_message)
        self._decoder = ParserComposition(decoder, default.decode_message)
        self._client: aio.Producer | None = None

    def connect(self, client: aio.Producer, serializer: Any, codec: Any = None) -> None:
        """Publish with a producer from now on."""
        self._client = client
        self.serializer = serializer
        self.codec = codec or DefaultCodec()

    def disconnect(self) -> None:
        """Publish no more."""
        self._client = None

    async def publish(self, cmd: RocketCommand) -> SendResult:
        """Send a message, or the reply to a request."""
        body, content_type = await self.codec.encode(cmd.body, self.serializer)
        message = cmd.message(body, content_type)
        if cmd.request is not None:
            reply = reply_to(cmd.request, message.body)
            reply.properties = message.properties | reply.properties
            return await self._connected.send(reply)
        selector = None if cmd.order_by is None else select_by_hash(cmd.order_by)
        return await self._connected.send(message, selector=selector)

    async def request(self, cmd: RocketCommand) -> RawMessage:
        """Send a request and return its reply; raise TimeoutError, as all brokers of FastStream do."""
        body, content_type = await self.codec.encode(cmd.body, self.serializer)
        timeout_ms = int((cmd.timeout or REQUEST_S) * 1_000)
        message = cmd.message(body, content_type)
        try:
            return RawMessage(await self._connected.request(message, timeout_ms=timeout_ms))
        except RequestTimeout as error:
            raise TimeoutError(str(error)) from error

    async def publish_batch(self, cmd: Any) -> Any:
        """Refuse: a batch of FastStream may be for several topics."""
        raise FeatureNotSupportedException(
            "RocketBroker publishes no batches; publish the messages one by one, or use Producer.send_batch"
        )

    @property
    def _connected(self) -> aio.Producer:
        if self._client is None:
            raise IncorrectState("the broker is not connected; start it, or use `async with broker`")
        return self._client


class NoProducer(RocketProducer):
    """The producer of a router that no broker has included."""

    def __bool__(self) -> bool:
        return False
