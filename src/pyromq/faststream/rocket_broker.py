"""The broker of FastStream, its routers, and what is declared on them."""

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from fast_depends import dependency_provider
from faststream._internal.broker import BrokerUsecase
from faststream._internal.broker.registrator import Registrator
from faststream._internal.broker.router import ArgsContainer, BrokerRouter, SubscriberRoute
from faststream._internal.constants import EMPTY
from faststream._internal.context.repository import ContextRepo
from faststream._internal.di import FastDependsConfig
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream._internal.logger import DefaultLoggerStorage, make_logger_state
from faststream._internal.logger.logging import get_broker_logger
from faststream.middlewares import AckPolicy
from faststream.response.publish_type import PublishType
from faststream.specification.schema import BrokerSpec

from pyromq import aio
from pyromq.client.name_servers import name_server_addresses
from pyromq.config.settings import ClientSettings
from pyromq.errors import PyroError
from pyromq.faststream.rocket_endpoints import (
    RocketConfig,
    RocketPublisher,
    RocketPublisherConfig,
    RocketPublisherSpec,
    RocketPublisherSpecConfig,
    RocketSubscriber,
    RocketSubscriberConfig,
    RocketSubscriberSpec,
    RocketSubscriberSpecConfig,
    WantedMessages,
)
from pyromq.faststream.rocket_messages import RawMessage, RocketCommand, RocketMessage
from pyromq.faststream.rocket_producer import REQUEST_S, RocketProducer
from pyromq.model import SendResult


class RocketLogger(DefaultLoggerStorage):
    """Log lines with the topic and the message's id."""

    def register_subscriber(self, params: dict[str, Any]) -> None:
        """Do nothing: lines have no columns."""

    def set_level(self, level: int) -> None:
        """Log from a level on."""
        self.logger_log_level = level

    def get_logger(self, *, context: ContextRepo) -> Any:
        """Return the logger."""
        found = self._get_logger_ref()
        if not found:
            found = get_broker_logger(
                name="rocketmq",
                default_context={"topic": "", "message_id": ""},
                message_id_ln=32,
                fmt="%(asctime)s %(levelname)-8s - %(topic)s | %(message_id)s - %(message)s",
                context=context,
                log_level=self.logger_log_level,
            )
            self._logger_ref.add(found)
        return found


class RocketRegistrator(Registrator[RawMessage, RocketConfig]):
    """Declares subscribers and publishers."""

    def subscriber(  # type: ignore[override]
        self,
        topic: str,
        *,
        ack_policy: AckPolicy = EMPTY,
        no_reply: bool = False,
        dependencies: Sequence[Any] = (),
        parser: Any = None,
        decoder: Any = None,
        codec: Any = None,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        include_in_schema: bool = True,
        **wanted: Any,
    ) -> RocketSubscriber:
        """Call a handler with the messages of a topic.

        Further arguments are fields of `WantedMessages`: group, tags, sql, mode ("pull", "pop"), model
        ("clustering", "broadcasting"), ordered, concurrency, retries, consume_from.
        """
        config: Any = self.config
        calls: CallsCollection[Any] = CallsCollection()
        spec = RocketSubscriberSpecConfig(
            topic=topic, title_=title, description_=description, include_in_schema=include_in_schema
        )
        subscriber = RocketSubscriber(
            RocketSubscriberConfig(
                wanted=WantedMessages(topic, **wanted),
                no_reply=no_reply,
                _outer_config=config,
                _ack_policy=ack_policy,
            ),
            RocketSubscriberSpec(config, spec, calls),
            calls,
        )
        super().subscriber(subscriber, persistent=persistent)
        return subscriber.add_call(
            parser_=parser or self._parser,
            decoder_=decoder or self._decoder,
            codec_=codec,
            dependencies_=dependencies,
        )

    def publisher(  # type: ignore[override]
        self,
        topic: str,
        *,
        tags: str | None = None,
        headers: dict[str, str] | None = None,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        schema: Any = None,
        include_in_schema: bool = True,
    ) -> RocketPublisher:
        """Publish to a topic: what a handler returns, or what `publish` is given."""
        config: Any = self.config
        spec = RocketPublisherSpecConfig(
            topic=topic,
            schema_=schema,
            title_=title,
            description_=description,
            include_in_schema=include_in_schema,
        )
        publisher = RocketPublisher(
            RocketPublisherConfig(topic=topic, tags=tags, headers=headers, _outer_config=config),
            RocketPublisherSpec(config, spec),
        )
        super().publisher(publisher, persistent=persistent)
        return publisher


class RocketBroker(RocketRegistrator, BrokerUsecase[RawMessage, aio.Producer, RocketConfig]):
    """RocketMQ for FastStream, by the addresses of its name servers."""

    def __init__(
        self,
        name_server: str | None = None,
        *,
        group: str = "faststream",
        graceful_timeout: float | None = 15.0,
        decoder: Any = None,
        parser: Any = None,
        codec: Any = None,
        dependencies: Sequence[Any] = (),
        middlewares: Sequence[Any] = (),
        routers: Iterable[RocketRegistrator] = (),
        ack_policy: AckPolicy = EMPTY,
        specification_url: str | None = None,
        description: str | None = None,
        tags: Iterable[Any] = (),
        logger: Any = EMPTY,
        log_level: int = logging.INFO,
        apply_types: bool = True,
        serializer: Any = EMPTY,
        provider: Any = None,
        context: ContextRepo | None = None,
    ) -> None:
        self.name_server = name_server
        addresses = name_server_addresses(name_server, ClientSettings())
        super().__init__(
            routers=routers,
            config=RocketConfig(
                name_server=name_server,
                group=group,
                producer=RocketProducer(parser, decoder),
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                broker_codec=codec,
                logger=make_logger_state(
                    logger=logger, log_level=log_level, default_storage_cls=RocketLogger
                ),
                fd_config=FastDependsConfig(
                    use_fastdepends=apply_types,
                    serializer=serializer,
                    provider=provider or dependency_provider,
                    context=context or ContextRepo(),
                ),
                broker_dependencies=dependencies,
                graceful_timeout=graceful_timeout,
                ack_policy=ack_policy,
                extra_context={"broker": self},
            ),
            specification=BrokerSpec(
                description=description,
                url=[specification_url or f"rocketmq://{one}" for one in addresses],
                protocol="rocketmq",
                protocol_version=None,
                tags=tags,
                security=None,
            ),
        )

    async def _connect(self) -> aio.Producer:
        settings: Any = self.config.broker_config
        producer = aio.Producer(settings.group, settings.name_server)
        await producer.start()
        settings.producer.connect(producer, settings.fd_config._serializer, settings.broker_codec)
        return producer

    async def start(self) -> None:
        """Connect, and start the subscribers."""
        await self.connect()
        await super().start()

    async def stop(self, exc_type: Any = None, exc_val: Any = None, exc_tb: Any = None) -> None:
        """Stop the subscribers, then the producer."""
        await super().stop(exc_type, exc_val, exc_tb)
        producer, self._connection = self._connection, None
        if producer is not None:
            await producer.close()
        self.config.broker_config.producer.disconnect()

    async def ping(self, timeout: float | None = None) -> bool:
        """Return whether a name server answers, and knows a broker."""
        try:
            async with aio.Admin(self.config.broker_config.name_server) as admin:
                return bool((await admin.cluster()).broker_addr_table)
        except PyroError:
            return False

    async def publish(
        self,
        message: Any = None,
        topic: str = "",
        *,
        tags: str | None = None,
        keys: Sequence[str] = (),
        delay: timedelta | float | None = None,
        deliver_at: datetime | int | None = None,
        order_by: str | None = None,
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
    ) -> SendResult:
        """Publish a message; messages of one `order_by` go to one queue."""
        cmd = RocketCommand(
            message,
            topic=topic,
            tags=tags,
            keys=keys,
            delay=delay,
            deliver_at=deliver_at,
            order_by=order_by,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            reply_to=reply_to,
        )
        result: SendResult = await self._basic_publish(cmd, producer=self.config.producer)
        return result

    async def request(  # type: ignore[override]
        self,
        message: Any = None,
        topic: str = "",
        *,
        timeout: float = REQUEST_S,
        tags: str | None = None,
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
    ) -> RocketMessage:
        """Send a request, and return what its handler returned."""
        cmd = RocketCommand(
            message,
            topic=topic,
            tags=tags,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            timeout=timeout,
            _publish_type=PublishType.REQUEST,
        )
        found: RocketMessage = await self._basic_request(cmd, producer=self.config.producer)
        return found


class RocketPublisherRoute(ArgsContainer):
    """A publisher of a `RocketRoute`: the arguments of `publisher`."""

    def __init__(self, topic: str, **options: Any) -> None:
        super().__init__(topic, **options)


class RocketRoute(SubscriberRoute):
    """A handler and its topic, for a router's `handlers`: the arguments of `subscriber`."""

    def __init__(
        self,
        call: Callable[..., Any],
        topic: str,
        *,
        publishers: Iterable[RocketPublisherRoute] = (),
        **options: Any,
    ) -> None:
        super().__init__(call, topic, publishers=publishers, **options)


class RocketRouter(RocketRegistrator, BrokerRouter[RawMessage, RocketConfig]):
    """Subscribers and publishers that a broker includes."""

    def __init__(
        self,
        prefix: str = "",
        handlers: Iterable[RocketRoute] = (),
        *,
        dependencies: Sequence[Any] = (),
        middlewares: Sequence[Any] = (),
        routers: Iterable[RocketRegistrator] = (),
        parser: Any = None,
        decoder: Any = None,
        include_in_schema: bool | None = None,
        ack_policy: AckPolicy = EMPTY,
    ) -> None:
        super().__init__(
            handlers=handlers,
            config=RocketConfig(
                prefix=prefix,
                ack_policy=ack_policy,
                broker_dependencies=dependencies,
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                include_in_schema=include_in_schema,
            ),
            routers=routers,
        )
