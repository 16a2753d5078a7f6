"""Handlers of the name server's requests, which `namesrv_routes.py` lists."""

import logging
from hashlib import blake2b
from typing import Final

import msgspec

from pyromq.clock import Clock
from pyromq.codes import VERSION_5, VERSION_STANDARD_JSON, ResponseCode
from pyromq.errors import Refused
from pyromq.namesrv.encoded_routes import EncodedRoutes, RouteDialect
from pyromq.namesrv.key_values import ORDER_TOPIC_CONFIG, KeyValues
from pyromq.namesrv.namesrv_live_settings import NamesrvLiveSettings
from pyromq.namesrv.route_table import BrokerRegistration, RouteTable
from pyromq.net.routes import Answer, Request
from pyromq.wire.bodies.list_bodies import TopicList, encode_topic_list
from pyromq.wire.bodies.registration_bodies import (
    KeyValueTable,
    RegisterBrokerBody,
    body_crc32,
    decode_register_broker,
    encode_key_values,
)
from pyromq.wire.bodies.route_bodies import encode_cluster, encode_route
from pyromq.wire.bodies.topic_bodies import TopicConfigTable, decode_data_version, encode_data_version
from pyromq.wire.headers import namesrv_headers as headers

_log = logging.getLogger("pyromq.namesrv")
#: So many brokers' last registrations are remembered.
KNOWN_BROKERS_MAX: Final = 1_000


class BrokerHandlers:
    """Brokers that register, say that they are alive, and leave."""

    def __init__(self, table: RouteTable, key_values: KeyValues, clock: Clock) -> None:
        self._table = table
        self._key_values = key_values
        self._clock = clock
        #: By address: the digest of what a broker registered last, and that without its topics.
        self._last: dict[str, tuple[bytes, RegisterBrokerBody]] = {}

    def register(self, request: Request[headers.RegisterBroker]) -> Answer:
        """Take in a broker; the answer has the order configuration of topics, and a slave's master."""
        header = request.header
        body = self._read_body(request)
        if self._table.version_of(header.broker_addr) is None:
            _log.info(
                "broker %s (%d) of %s registers at %s",
                header.broker_name,
                header.broker_id,
                header.cluster_name,
                header.broker_addr,
            )
        master = self._table.register(
            BrokerRegistration(
                cluster=header.cluster_name,
                broker_name=header.broker_name,
                broker_id=header.broker_id,
                address=header.broker_addr,
                ha_address=header.ha_server_addr,
                topics=body.topics,
                filter_servers=body.filter_servers,
            ),
            link=request.link,
            now_s=self._clock.monotonic(),
        )
        answer = headers.RegisterBrokerAnswer()
        if master is not None:
            answer = headers.RegisterBrokerAnswer(
                ha_server_addr=master.ha_address, master_addr=master.address
            )
        orders = self._key_values.namespace(ORDER_TOPIC_CONFIG)
        body_bytes = b"" if orders is None else encode_key_values(KeyValueTable(table=orders))
        return Answer(header=answer, body=body_bytes)

    def unregister(self, request: Request[headers.UnregisterBroker]) -> Answer:
        """Forget a broker; it usually says goodbye without waiting for the answer."""
        header = request.header
        self._table.unregister(
            broker_name=header.broker_name, broker_id=header.broker_id, address=header.broker_addr
        )
        _log.info("broker %s at %s unregisters", header.broker_name, header.broker_addr)
        return Answer()

    def query_version(self, request: Request[headers.QueryDataVersion]) -> Answer:
        """Say whether a broker should register again; if not, this counts as its heartbeat."""
        address = request.header.broker_addr
        has_changed = self._table.has_changed(address, decode_data_version(request.body))
        if not has_changed:
            self._table.hear(address, now_s=self._clock.monotonic())
        known = self._table.version_of(address)
        return Answer(
            header=headers.QueryDataVersionAnswer(changed=has_changed),
            body=b"" if known is None else encode_data_version(known),
        )

    def _read_body(self, request: Request[headers.RegisterBroker]) -> RegisterBrokerBody:
        header = request.header
        if header.body_crc32 and header.body_crc32 != body_crc32(request.body):
            raise Refused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        return self._decode(header, request.body)

    def _decode(self, header: headers.RegisterBroker, data: bytes) -> RegisterBrokerBody:
        """Return what a broker registers; topics that are known, byte by byte, are not read again.

        A broker with ten thousand topics sends them all twice a minute. The table looks at none of them while
        their version is the one that it has of this broker.
        """
        address = header.broker_addr
        digest = blake2b(data, digest_size=16, key=b"z" if header.compressed else b"").digest()
        last = self._last.get(address)
        if (
            last is not None
            and last[0] == digest
            and self._table.is_registered(header.broker_name, header.broker_id, address)
            and not self._table.has_changed(address, last[1].topics.data_version)
        ):
            return last[1]
        body = decode_register_broker(data, compressed=header.compressed)
        if last is None and len(self._last) >= KNOWN_BROKERS_MAX:
            self._last.clear()
        topics = TopicConfigTable(data_version=body.topics.data_version)
        self._last[address] = digest, msgspec.structs.replace(body, topics=topics)
        return body


class RouteHandlers:
    """Clients and operators that ask who serves what."""

    def __init__(self, table: RouteTable, key_values: KeyValues, settings: NamesrvLiveSettings) -> None:
        self._table = table
        self._key_values = key_values
        self._settings = settings
        self._cache = EncodedRoutes()
        table.on_changed = self._cache.forget

    def route(self, request: Request[headers.GetRouteInfo]) -> Answer:
        """Say who serves a topic, in the JSON that the asking client's version reads."""
        topic, version = request.header.topic, request.command.version
        order = None
        if self._settings.now.namesrv.order_message_enable:
            order = self._key_values.get(ORDER_TOPIC_CONFIG, topic)
        is_standard = version >= VERSION_STANDARD_JSON or bool(request.header.accept_standard_json_only)
        dialect = RouteDialect(is_standard, version >= VERSION_5, order)
        body = self._cache.find(topic, dialect)
        if body is None:
            body = self._encode(topic, dialect)
            self._cache.keep(topic, dialect, body)
        return Answer(body=body)

    def _encode(self, topic: str, dialect: RouteDialect) -> bytes:
        route = self._table.route(topic)
        if route is None:
            raise Refused(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic route info in name server for the topic: {topic}\n"
                "See http://rocketmq.apache.org/docs/faq/ for further details.",
            )
        if dialect.order is not None:
            route = msgspec.structs.replace(route, order_topic_conf=dialect.order)
        return encode_route(route, quoted_keys=dialect.quoted_keys, is_5=dialect.is_5)

    def cluster(self, request: Request[None]) -> Answer:
        """Say which brokers and clusters there are."""
        is_5 = request.command.version >= VERSION_5
        return Answer(body=encode_cluster(self._table.cluster_table(), is_5=is_5))

    def topics(self, request: Request[None]) -> Answer:
        """List all topics."""
        return _topic_list(self._table.topics())

    def topics_of_cluster(self, request: Request[headers.GetTopicsByCluster]) -> Answer:
        """List a cluster's topics."""
        return _topic_list(self._table.topics_of(request.header.cluster))

    def system_topics(self, request: Request[None]) -> Answer:
        """List the topics named after clusters and brokers."""
        return _topic_list(self._table.system_topics())

    def unit_topics(self, request: Request[None]) -> Answer:
        """List the topics that belong to a unit."""
        return _topic_list(self._table.unit_topics())

    def unit_sub_topics(self, request: Request[None]) -> Answer:
        """List the topics with subscriptions by unit."""
        return _topic_list(self._table.unit_sub_topics())

    def unit_sub_ununit_topics(self, request: Request[None]) -> Answer:
        """List the topics with subscriptions by unit that are in no unit."""
        return _topic_list(self._table.unit_sub_ununit_topics())

    def delete_topic(self, request: Request[headers.DeleteTopicInNamesrv]) -> Answer:
        """Forget a topic's route, in one cluster or in all."""
        header = request.header
        self._table.delete_topic(header.topic, header.cluster_name or None)
        _log.info("%s deletes topic %s", request.link.peer, header.topic)
        return Answer()

    def wipe_write_permission(self, request: Request[headers.WipeWritePermOfBroker]) -> Answer:
        """Let no producer choose a broker."""
        name = request.header.broker_name
        count = self._table.wipe_write_permission(name)
        _log.info("%s takes write permission from broker %s, %d topics", request.link.peer, name, count)
        return Answer(header=headers.WipeWritePermOfBrokerAnswer(wipe_topic_count=count))

    def add_write_permission(self, request: Request[headers.AddWritePermOfBroker]) -> Answer:
        """Let producers choose a broker again."""
        name = request.header.broker_name
        count = self._table.add_write_permission(name)
        _log.info("%s gives write permission to broker %s, %d topics", request.link.peer, name, count)
        return Answer(header=headers.AddWritePermOfBrokerAnswer(add_topic_count=count))


class KeyValueHandlers:
    """The small table of shared settings."""

    def __init__(self, key_values: KeyValues) -> None:
        self._key_values = key_values

    async def put(self, request: Request[headers.PutKvConfig]) -> Answer:
        """Set a value."""
        header = request.header
        await self._key_values.put(header.namespace, header.key, header.value)
        return Answer()

    async def delete(self, request: Request[headers.DeleteKvConfig]) -> Answer:
        """Remove a value."""
        await self._key_values.delete(request.header.namespace, request.header.key)
        return Answer()

    def get(self, request: Request[headers.GetKvConfig]) -> Answer:
        """Return a value."""
        header = request.header
        value = self._key_values.get(header.namespace, header.key)
        if value is None:
            raise Refused(
                ResponseCode.QUERY_NOT_FOUND,
                f"No config item, Namespace: {header.namespace} Key: {header.key}",
            )
        return Answer(header=headers.GetKvConfigAnswer(value=value))

    def namespace(self, request: Request[headers.GetKvListByNamespace]) -> Answer:
        """Return the values of a namespace."""
        namespace = request.header.namespace
        values = self._key_values.namespace(namespace)
        if values is None:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
        return Answer(body=encode_key_values(KeyValueTable(table=values)))


class SettingsHandlers:
    """The name server's own settings."""

    def __init__(self, settings: NamesrvLiveSettings) -> None:
        self._settings = settings

    def get(self, request: Request[None]) -> Answer:
        """Return all settings as text."""
        return Answer(body=self._settings.as_text().encode())

    async def update(self, request: Request[None]) -> Answer:
        """Change settings that may change while it runs."""
        await self._settings.change(request.body.decode("utf-8", "replace"))
        _log.info("%s changed settings", request.link.peer)
        return Answer()


def _topic_list(topics: TopicList) -> Answer:
    return Answer(body=encode_topic_list(topics))
