"""The application: its handlers, its producer, and the order in which they start and stop."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pyromq.app.app_stage import AppStage
from pyromq.app.handler import Handler
from pyromq.app.handler_metrics import HandlerMetrics
from pyromq.app.handler_terms import HandlerTerms
from pyromq.app.lifespan import Asgi, with_lifespan
from pyromq.app.outcomes import Outcome
from pyromq.app.typed_bodies import encode_body
from pyromq.client.aio.producer import Producer
from pyromq.client.aio.push_consumer import PushConsumer
from pyromq.client.hooks import ConsumeHook, SendHook
from pyromq.client.producer.queue_choice import select_by_hash
from pyromq.client.push.delivery import ConsumeResult, Delivery
from pyromq.client.sync.producer import Producer as BlockingProducer
from pyromq.config.settings import ClientSettings
from pyromq.errors import AlreadyStarted, ClientClosed, ConfigError
from pyromq.model import Message, ReceivedMessage, SendResult
from pyromq.outbox.adding import Outbox
from pyromq.outbox.aio import Relay
from pyromq.outbox.rounds import Connect
from pyromq.sql import Connection

log = logging.getLogger("pyromq.app")

F = TypeVar("F", bound=Callable[..., Any])

#: What separates the application's name from the handler's in the name of a group.
_JOINT: Final = "-"


class App:
    """Handlers of messages, and a producer, in one service.

        app = App("billing", "127.0.0.1:9876")

        @app.consumer("orders", tags="paid")
        async def charge(order: Order) -> None:
            await app.publish("invoices", Invoice(order.id))

    `name` names the groups: that of a handler is `name-function`. Without `name_server` the environment's
    NAMESRV_ADDR is taken. `settings` are those of all clients of the application.

    `outbox` opens a connection to the application's database: `enqueue` then writes messages in the
    application's own transactions, and they are sent while the application runs. With `tracing` each send and
    each call of a handler is a span of OpenTelemetry (`pip install 'pyromq[otel]'`).

    It runs by `pyromq run module:app`, inside a web application (`FastAPI(lifespan=app.lifespan)`), or by
    `async with app:`.
    """

    def __init__(
        self,
        name: str,
        name_server: str | None = None,
        *,
        settings: ClientSettings | None = None,
        outbox: Connect | None = None,
        tracing: bool = False,
    ) -> None:
        self.name = name
        self.handlers: list[Handler] = []
        self.metrics = HandlerMetrics()
        #: Seconds that handlers have to end when it closes; None: as the settings say, 5 by default.
        self.grace_s: float | None = None
        self._name_server = name_server
        self._settings = settings
        self._connect = outbox
        self._outbox: Outbox | None = None
        self._tracing = tracing
        self._stage: AppStage | None = None
        self._producer: Producer | None = None
        self._blocking: BlockingProducer | None = None
        #: Threads that publish first make one producer together.
        self._opening = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: AsyncExitStack | None = None

    # Handlers

    def consumer(self, topic: str, *, group: str | None = None, **terms: Any) -> Callable[[F], F]:
        """Have a function called with the messages of a topic; a decorator.

        The function takes the body, of the type that it is annotated with: bytes, str, or what JSON is read
        as: a dataclass, a msgspec.Struct, a pydantic model. A parameter annotated with ReceivedMessage gets
        the message itself. A plain function runs on a thread. What it returns goes to the topic `publishes`.

        A message is done when the function returns. When it raises, the message comes again, and after
        `retries` it is a dead letter; `raise Reject(…)` makes it one at once, `raise RetryLater(after="1m")`
        says when it comes again. The other options are the fields of HandlerTerms.
        """

        def add(function: F) -> F:
            name = getattr(function, "__name__", type(function).__name__)
            try:
                given = HandlerTerms(topic=topic, group=group or self._group(name), **terms)
            except TypeError as error:
                raise ConfigError(
                    f"handler {name}: {error}".replace("HandlerTerms.__init__()", "it")
                ) from error
            if any(given.group == other.terms.group for other in self.handlers):
                raise ConfigError(
                    f"handler {name}: group {given.group} has a handler already; all members of a group "
                    "subscribe to the same, so each handler has a group of its own"
                )
            self.handlers.append(Handler(function, given, self.publish))
            return function

        return add

    def _group(self, name: str) -> str:
        return f"{self.name}{_JOINT}{name}"

    # Messages

    def message(
        self,
        topic: str,
        body: object,
        *,
        tags: str | None = None,
        keys: Sequence[str] | str = (),
        properties: dict[str, str] | None = None,
        delay: timedelta | float | None = None,
        deliver_at: datetime | int | None = None,
    ) -> Message:
        """Return a message whose body is a value: bytes, str, or anything that has JSON."""
        return Message(
            topic,
            encode_body(body),
            tags=tags,
            keys=keys,
            properties=dict(properties or {}),
            delay=delay,
            deliver_at=deliver_at,
        )

    async def publish(
        self, topic: str, body: object, *, order_by: str | None = None, **options: Any
    ) -> SendResult:
        """Send a value as a message, and return where it went; the options are those of `message`.

        Messages with the same `order_by` go to one queue, so that ordered handlers see them in order.
        """
        message = self.message(topic, body, **options)
        if self._stage is not None:
            return self._stage.publish(message)
        if self._producer is None:
            raise ClientClosed(
                f"application {self.name} is not started: run it by `pyromq run module:app`, give its "
                "lifespan to the web application, or use `async with app:`; elsewhere publish_blocking sends"
            )
        if order_by is None:
            return await self._producer.send(message)
        return await self._producer.send(message, selector=select_by_hash(order_by))

    def publish_blocking(
        self, topic: str, body: object, *, order_by: str | None = None, **options: Any
    ) -> SendResult:
        """Do the same from a thread: a plain handler, a view of Django, a script. It needs no lifespan."""
        if self._stage is not None:
            return self._stage.publish(self.message(topic, body, **options))
        loop = self._loop
        if loop is None:
            return self._send_blocking(self.message(topic, body, **options), order_by)
        try:
            is_here = asyncio.get_running_loop() is loop
        except RuntimeError:
            is_here = False
        if is_here:
            raise RuntimeError(
                "publish_blocking would wait for the loop that it runs on; await app.publish(…)"
            )
        sending = self.publish(topic, body, order_by=order_by, **options)
        return asyncio.run_coroutine_threadsafe(sending, loop).result()

    def enqueue(
        self, connection: Connection, topic: str, body: object, *, order_by: str | None = None, **options: Any
    ) -> str:
        """Write a message in the connection's transaction; it is sent if that is committed, and only then.

        Needs `App(…, outbox=…)`. Returns the message's id. Messages of one `order_by` keep their order.
        """
        if self._connect is None:
            raise ConfigError(
                f"application {self.name} has no outbox: App({self.name!r}, outbox=CONNECT), where CONNECT "
                "opens a connection to the database"
            )
        if self._outbox is None:
            self._outbox = Outbox(connection, settings=self._settings)
        return self._outbox.add(connection, self.message(topic, body, **options), group=order_by)

    # Life

    @property
    def is_running(self) -> bool:
        """Whether it is started."""
        return self._closing is not None

    async def start(self) -> None:
        """Start the producer, then the outbox, then all handlers; `async with app:` does it."""
        if self._closing is not None:
            raise AlreadyStarted(f"application {self.name} runs already")
        send_hooks, consume_hooks = self._hooks()
        async with AsyncExitStack() as closing:
            self._producer = Producer(self.name, self._name_server, self._settings, hooks=send_hooks)
            await closing.enter_async_context(self._producer)
            self._loop = asyncio.get_running_loop()
            closing.callback(self._forget)
            if self._connect is not None:
                await self._start_relay(self._connect, self._producer, closing)
            for handler in self.handlers:
                handler.open()
                closing.callback(handler.close)
                await closing.enter_async_context(self._consumer_of(handler, consume_hooks))
            self._closing = closing.pop_all()
        log.info("application %s runs with %d handlers", self.name, len(self.handlers))

    async def close(self) -> None:
        """Take no further messages, wait for handlers that run, then close the producer."""
        closing, self._closing = self._closing, None
        blocking, self._blocking = self._blocking, None
        try:
            if closing is not None:
                await closing.aclose()
        finally:
            if blocking is not None:
                await asyncio.to_thread(blocking.close)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @asynccontextmanager
    async def lifespan(self, _web_application: object = None) -> AsyncIterator[None]:
        """Run while a web application does: `FastAPI(lifespan=app.lifespan)`, and Starlette alike."""
        async with self:
            yield

    def asgi(self, web_application: Asgi) -> Asgi:
        """Return an ASGI application that runs this one beside one without a lifespan, such as Django."""
        return with_lifespan(web_application, self.lifespan)

    def test(self) -> AppStage:
        """Return a stage: handlers are called without a broker, and published messages are kept there."""
        return AppStage(self)

    # Inside

    def _forget(self) -> None:
        self._producer = self._loop = None

    def _hooks(self) -> tuple[list[SendHook], list[ConsumeHook]]:
        if not self._tracing:
            return [], []
        try:
            from pyromq.otel import SpansOfConsumes, SpansOfSends
        except ImportError as error:
            raise ConfigError("tracing=True needs OpenTelemetry: pip install 'pyromq[otel]'") from error
        return [SpansOfSends()], [SpansOfConsumes()]

    async def _start_relay(self, connect: Connect, producer: Producer, closing: AsyncExitStack) -> None:
        await asyncio.to_thread(self._create_table, connect)
        relay = Relay(connect, producer)
        task = asyncio.create_task(relay.run(), name="pyromq-app-outbox")

        async def stop() -> None:
            relay.stop()
            await task

        closing.push_async_callback(stop)

    def _create_table(self, connect: Connect) -> None:
        connection = connect()
        try:
            self._outbox = Outbox(connection, settings=self._settings)
            self._outbox.create_table(connection)
            connection.commit()
        finally:
            connection.close()

    def _consumer_of(self, handler: Handler, hooks: Sequence[ConsumeHook]) -> PushConsumer:
        terms = handler.terms
        changes: dict[str, Any] = {
            "consume_thread_min": terms.concurrency,
            "consume_thread_max": terms.concurrency,
        }
        if self.grace_s is not None:
            changes["await_termination_millis_when_shutdown"] = round(self.grace_s * 1_000)
        if terms.retries != -1:
            changes["max_reconsume_times"] = terms.retries
        consumer = PushConsumer(
            terms.group,
            self._name_server,
            listener=partial(self.listen, handler),
            mode=terms.mode,
            model="broadcasting" if terms.broadcast else "clustering",
            order="orderly" if terms.ordered else "concurrent",
            settings=self._settings,
            consume_from=terms.consume_from,
            hooks=hooks,
            **changes,
        )
        consumer.subscribe(terms.topic, terms.tags, sql=terms.sql)
        return consumer

    async def listen(self, handler: Handler, message: ReceivedMessage, delivery: Delivery) -> ConsumeResult:
        """Have a handler handle a message, and count it."""
        return (await self.handle(handler, message, delivery))[1]

    async def handle(
        self, handler: Handler, message: ReceivedMessage, delivery: Delivery
    ) -> tuple[Outcome, ConsumeResult]:
        """Do the same, and return the outcome too."""
        began = time.perf_counter()
        self.metrics.began(handler)
        try:
            outcome, answer = await handler.handle(message, delivery)
        finally:
            self.metrics.ended(handler)
        self.metrics.handled(handler, outcome.result, time.perf_counter() - began)
        return outcome, answer

    def attach(self, stage: AppStage | None) -> None:
        """Publish to a stage, until it is None again; of the stage."""
        self._stage = stage

    def _send_blocking(self, message: Message, order_by: str | None) -> SendResult:
        with self._opening:
            if self._blocking is None:
                producer = BlockingProducer(
                    self.name, self._name_server, self._settings, hooks=self._hooks()[0]
                )
                producer.start()
                self._blocking = producer
        if order_by is None:
            return self._blocking.send(message)
        return self._blocking.send(message, selector=select_by_hash(order_by))
