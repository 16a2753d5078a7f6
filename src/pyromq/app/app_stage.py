"""A test client: the handlers of an application are called without a broker.

    with app.test() as stage:
        stage.send("orders", Order(id=7), tags="paid")
        assert stage.published("invoices") == [Invoice(id=7)]

Each handler that wants a message gets it as a consumer would: by its tags or its SQL filter, decoded, and
again after it failed until its retries are used up, without waiting. What handlers publish is kept, and
handed to the handlers of those topics too. Messages with a delay are handled at once.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from pyromq.app.outcomes import Result
from pyromq.app.typed_bodies import decoder_of
from pyromq.client.producer.arrived import arrived
from pyromq.client.push.delivery import ConsumeResult, Delivery
from pyromq.errors import AlreadyStarted
from pyromq.filter.sql_filter import compile_sql
from pyromq.filter.tags import parse_tags, wants_all
from pyromq.model import Message, MessageQueue, ReceivedMessage, SendResult, SendStatus

if TYPE_CHECKING:
    from pyromq.app.application import App
    from pyromq.app.handler import Handler

T = TypeVar("T")

#: Messages that one `send` may lead to: handlers that publish to each other would go on for ever.
MESSAGES_MAX: int = 10_000
#: Tries of a message of which a handler says that it comes again without end.
TRIES_MAX: int = 100


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """A message that a handler gave up, and the error of its last try."""

    handler: str
    message: ReceivedMessage
    error: Exception | None


class AppStage:
    """An application on a stage. `with` and `async with` both work; `send` and `asend` are the same."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self._waiting: deque[ReceivedMessage] = deque()
        self._count = 0
        #: All that was published or sent here, in order.
        self.messages: list[Message] = []
        #: Messages that handlers gave up.
        self.dead: list[DeadMessage] = []

    def __enter__(self) -> Self:
        if self._app.is_running:
            raise AlreadyStarted(f"application {self._app.name} runs: its messages go to a broker")
        self._app.attach(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._app.attach(None)
        for handler in self._app.handlers:
            handler.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    def send(self, topic: str, body: object, **options: Any) -> list[Result]:
        """Give handlers a message, and those that follow from it; return the result of each call."""
        return asyncio.run(self.asend(topic, body, **options))

    async def asend(self, topic: str, body: object, **options: Any) -> list[Result]:
        """Do the same on a loop that runs."""
        self._count = 0
        self.publish(self._app.message(topic, body, **options))
        results: list[Result] = []
        while self._waiting:
            message = self._waiting.popleft()
            for handler in self._app.handlers:
                if _wants(handler, message):
                    results += await self._handle(handler, message)
        return results

    @overload
    def published(self, topic: str) -> list[Any]: ...
    @overload
    def published(self, topic: str, as_: type[T]) -> list[T]: ...
    def published(self, topic: str, as_: Any = Any) -> list[Any]:
        """Return the bodies of a topic's messages, read as a type; without one as JSON."""
        decode = decoder_of(as_)
        return [decode(message.body) for message in self.messages if message.topic == topic]

    def publish(self, message: Message) -> SendResult:
        """Keep a message, as a broker would; of the application."""
        self._count += 1
        if self._count > MESSAGES_MAX:
            raise RecursionError(
                f"one message led to {MESSAGES_MAX}: do handlers publish to each other's topics?"
            )
        offset = sum(each.topic == message.topic for each in self.messages)
        queue = MessageQueue(message.topic, "stage", 0)
        id_ = f"{len(self.messages):032X}"
        self.messages.append(message)
        self._waiting.append(arrived(message, queue, offset, id_))
        return SendResult(SendStatus.SEND_OK, id_, id_, queue, offset)

    async def _handle(self, handler: "Handler", message: ReceivedMessage) -> list[Result]:
        """Call a handler until the message is done or dead."""
        results: list[Result] = []
        for _ in range(TRIES_MAX):
            outcome, answer = await self._app.handle(handler, message, Delivery(message.queue))
            results.append(outcome.result)
            if outcome.result is Result.DEAD:
                self.dead.append(DeadMessage(handler.name, message, outcome.error))
            if outcome.result is not Result.RETRIED or answer is ConsumeResult.SUCCESS:
                break
            message.reconsume_times += 1
        return results


def _wants(handler: "Handler", message: ReceivedMessage) -> bool:
    terms = handler.terms
    if terms.topic != message.topic:
        return False
    if terms.sql is not None:
        return compile_sql(terms.sql).matches(message.properties)
    return wants_all(terms.tags) or message.tags in parse_tags(terms.tags)
