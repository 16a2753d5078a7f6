"""A name server on a free port, and brokers that are nothing but a connection and what they say."""

import contextlib
from collections.abc import AsyncIterator

from pyromq.clock import Clock, SystemClock
from pyromq.codes import RequestCode
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.settings import NetSettings
from pyromq.namesrv.namesrv import NameServer
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.registration_bodies import RegisterBrokerBody, body_crc32, encode_register_broker
from pyromq.wire.bodies.topic_bodies import DataVersion, TopicConfig, TopicConfigTable
from pyromq.wire.command import Command
from pyromq.wire.header import write_header
from pyromq.wire.headers.namesrv_headers import RegisterBroker, UnregisterBroker


@contextlib.asynccontextmanager
async def name_server(*, clock: Clock | None = None, **settings: object) -> AsyncIterator[NameServer]:
    """Run a name server."""
    server = NameServer(
        NamesrvSettings(listen_port=0, **settings),  # type: ignore[arg-type]  # the tests' own keywords
        NetSettings(),
        clock=clock or SystemClock(),
    )
    await server.start()
    try:
        yield server
    finally:
        await server.close()


class StageBroker:
    """A broker as the name server sees it."""

    def __init__(
        self, client: WireClient, name: str = "broker-a", broker_id: int = 0, *, port: int = 10911
    ) -> None:
        self.client = client
        self.name = name
        self.broker_id = broker_id
        self.address = f"127.0.0.1:{port}"
        self.ha_address = f"127.0.0.1:{port + 1}"
        self.cluster = "DefaultCluster"
        self.version = DataVersion(timestamp=1, counter=0)
        self.topics: dict[str, TopicConfig] = {}

    def has_topics(self, *topics: str | TopicConfig) -> "StageBroker":
        """Add topics, which makes a new version of the table."""
        for topic in topics:
            config = topic if isinstance(topic, TopicConfig) else TopicConfig(topic_name=topic)
            self.topics[config.topic_name] = config
        self.version = self.version.bumped(self.version.timestamp + 1)
        return self

    async def register(self, *, compressed: bool = False, crc32: int | None = None) -> Command:
        """Tell the name server, and return its answer."""
        table = TopicConfigTable(data_version=self.version, topic_config_table=self.topics)
        body = encode_register_broker(RegisterBrokerBody(topics=table), compressed=compressed)
        header = RegisterBroker(
            broker_name=self.name,
            broker_addr=self.address,
            cluster_name=self.cluster,
            ha_server_addr=self.ha_address,
            broker_id=self.broker_id,
            compressed=compressed,
            body_crc32=body_crc32(body) if crc32 is None else crc32,
        )
        return await self.client.ask(RequestCode.REGISTER_BROKER, write_header(header), body)

    def goodbye(self) -> dict[str, str]:
        """Return the fields of an unregister request."""
        return write_header(
            UnregisterBroker(
                broker_name=self.name,
                broker_addr=self.address,
                cluster_name=self.cluster,
                broker_id=self.broker_id,
            )
        )
