"""Messages of RocketMQ as FastStream's, and what is to be published."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from faststream.message import StreamMessage, decode_message
from faststream.response.publish_type import PublishType
from faststream.response.response import PublishCommand, Response

from pyromq.model import Message, ReceivedMessage
from pyromq.wire.properties import REPLY_TO_CLIENT

#: Properties that FastStream's own fields travel in.
CONTENT_TYPE: Final = "content-type"
CORRELATION: Final = "correlation_id"
REPLY_TOPIC: Final = "reply_to"
#: Says that the one byte of a body stands for none: RocketMQ takes no message without a body.
NO_BODY: Final = "empty_body"


class Settlement(Enum):
    """The end of a message; the value is RocketMQ's delay level of the next try."""

    DONE = None
    AGAIN = 0
    DEAD = -1


#: Tells a broker what becomes of a message that no listener has.
Settle = Callable[[Settlement], Awaitable[None]]


@dataclass(slots=True)
class RawMessage:
    """A message of a broker, and what is to become of it."""

    message: ReceivedMessage
    verdict: Settlement | None = None
    settle: Settle | None = None

    async def end(self, verdict: Settlement) -> None:
        """Say what becomes of it; the first time counts."""
        if self.verdict is None:
            self.verdict = verdict
            if self.settle is not None:
                await self.settle(verdict)


class RocketMessage(StreamMessage[RawMessage]):
    """A message as handlers and middlewares see it; `raw_message.message` is PyroMQ's."""

    async def ack(self) -> None:
        """End it: it does not come again."""
        await self.raw_message.end(Settlement.DONE)
        await super().ack()

    async def nack(self) -> None:
        """Have it come again, later each time; after `retries` it is a dead letter."""
        await self.raw_message.end(Settlement.AGAIN)
        await super().nack()

    async def reject(self) -> None:
        """Make it a dead letter of the group now."""
        await self.raw_message.end(Settlement.DEAD)
        await super().reject()


class RocketParser:
    """Reads what arrives."""

    async def parse_message(self, raw: RawMessage) -> RocketMessage:
        """Return FastStream's message."""
        message = raw.message
        headers = dict(message.properties)
        return RocketMessage(
            raw_message=raw,
            body=b"" if headers.pop(NO_BODY, "") else message.body,
            headers=headers,
            content_type=headers.get(CONTENT_TYPE),
            correlation_id=headers.get(CORRELATION),
            message_id=message.message_id,
            # Replies to Producer.request go to the client that asked, and not to a topic.
            reply_to=headers.get(REPLY_TO_CLIENT) or headers.get(REPLY_TOPIC) or "",
        )

    async def decode_message(self, message: StreamMessage[Any]) -> Any:
        """Return the body by its content type."""
        return decode_message(message)


class RocketCommand(PublishCommand):
    """A message that is to be published."""

    def __init__(
        self,
        message: Any,
        *,
        topic: str = "",
        tags: str | None = None,
        keys: Sequence[str] = (),
        delay: timedelta | float | None = None,
        deliver_at: datetime | int | None = None,
        order_by: str | None = None,
        correlation_id: str | None = None,
        headers: dict[str, str] | None = None,
        reply_to: str = "",
        timeout: float | None = None,
        _publish_type: PublishType = PublishType.PUBLISH,
    ) -> None:
        super().__init__(
            body=message,
            destination=topic,
            correlation_id=correlation_id,
            headers=headers,
            reply_to=reply_to,
            _publish_type=_publish_type,
        )
        self.tags = tags
        self.keys = keys
        self.delay = delay
        self.deliver_at = deliver_at
        self.order_by = order_by
        self.timeout = timeout
        #: The request that this replies to.
        self.request: ReceivedMessage | None = None

    @classmethod
    def from_cmd(cls, cmd: PublishCommand) -> "RocketCommand":
        """Return any command of FastStream as one of ours."""
        if isinstance(cmd, RocketCommand):
            return cmd
        return cls(
            cmd.body,
            topic=cmd.destination,
            correlation_id=cmd.correlation_id,
            headers=cmd.headers,
            reply_to=cmd.reply_to,
            timeout=getattr(cmd, "timeout", None),
            _publish_type=cmd.publish_type,
        )

    def message(self, body: bytes, content_type: str | None) -> Message:
        """Return the message that is sent."""
        properties = {name: str(value) for name, value in (self.headers or {}).items()}
        for name, value in (
            (CONTENT_TYPE, content_type),
            (CORRELATION, self.correlation_id),
            (REPLY_TOPIC, self.reply_to),
            (NO_BODY, "" if body else "true"),
        ):
            if value:
                properties[name] = value
        return Message(
            self.destination,
            body or b"\0",
            tags=self.tags,
            keys=self.keys,
            properties=properties,
            delay=self.delay,
            deliver_at=self.deliver_at,
        )


class RocketResponse(Response):
    """A result of a handler, to publish it with a tag, keys or a delay."""

    def __init__(
        self,
        body: Any,
        *,
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
        tags: str | None = None,
        keys: Sequence[str] = (),
        delay: timedelta | float | None = None,
    ) -> None:
        super().__init__(body, headers=headers, correlation_id=correlation_id)
        self.tags = tags
        self.keys = keys
        self.delay = delay

    def as_publish_command(self) -> RocketCommand:
        """Return the command."""
        return RocketCommand(
            self.body,
            headers=self.headers,
            correlation_id=self.correlation_id,
            tags=self.tags,
            keys=self.keys,
            delay=self.delay,
        )
