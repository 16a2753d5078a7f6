"""The routes of topics, as the broker's gRPC services tell them: from the name servers, and what is here.

A client that speaks gRPC asks brokers for routes, not name servers. So the broker asks for it, and keeps the
answer for a short time, and for as long as no name server answers: a list that loses brokers and finds them
again would have consumers drop their queues. What this broker knows of its own queues is newer, and counts.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyromq.broker.addresses import BrokerAddresses
from pyromq.broker.grpc.grpc_addresses import MASTER_ID, GrpcAddressBook
from pyromq.broker.registration_targets import RegistrationTargets
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import BrokerSettings
from pyromq.errors import ProtocolError, PyroError
from pyromq.net.links import Links
from pyromq.wire.bodies.body import read_body
from pyromq.wire.bodies.route_bodies import TopicRoute, decode_route
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.command import Command
from pyromq.wire.header import write_header
from pyromq.wire.headers.namesrv_headers import GetRouteInfo
from pyromq.wire.headers.operation_headers import GetTopicConfig

ASK_S_MAX: Final = 2.0
#: Seconds for which an answer of a name server is not asked again.
FRESH_S: Final = 2.0
FRESH_CONFIG_S: Final = 10.0
KEPT_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class BrokerPart:
    """The queues of a topic on one broker, and where its master and its slaves are for remoting."""

    name: str
    addresses: dict[int, str]
    read_queue_nums: int
    write_queue_nums: int
    perm: int


@dataclass(frozen=True, slots=True)
class _Kept:
    route: TopicRoute | None
    asked_at: float


class ClusterRoutes:
    """The routes of a cluster's topics."""

    def __init__(
        self,
        links: Links,
        topics: TopicTable,
        settings: BrokerSettings,
        clock: Clock,
        *,
        addresses: BrokerAddresses,
        name_servers: RegistrationTargets,
        book: GrpcAddressBook,
    ) -> None:
        self._links = links
        self._topics = topics
        self._settings = settings
        self._clock = clock
        self._addresses = addresses
        self._name_servers = name_servers
        self._book = book
        self._kept: dict[str, _Kept] = {}
        #: Of topics that are not here, and when they were asked for.
        self._configs: dict[str, tuple[TopicConfig, float]] = {}
        self._asking: dict[str, asyncio.Task[TopicRoute | None]] = {}

    async def find(self, topic: str) -> Sequence[BrokerPart]:
        """Return the brokers of a topic by their names; none where nobody has it."""
        route = await self._route(topic)
        parts = {} if route is None else _parts_of(route)
        own = self._own_part(topic, parts.get(self._settings.broker_name))
        if own is not None:
            parts[own.name] = own
        elif self._settings.broker_id == MASTER_ID:
            # The name servers have not heard yet that it was removed here.
            parts.pop(self._settings.broker_name, None)
        return [parts[name] for name in sorted(parts)]

    async def config_of(self, topic: str, parts: Sequence[BrokerPart]) -> TopicConfig | None:
        """Return the configuration of a topic: ours, else that of the first master which tells it."""
        config = self._topics.get(topic)
        if config is not None:
            return config
        kept = self._configs.get(topic)
        if kept is not None and self._clock.monotonic() - kept[1] < FRESH_CONFIG_S:
            return kept[0]
        for part in parts:
            config = await self._ask_config(topic, part.addresses.get(MASTER_ID))
            if config is not None:
                if len(self._configs) >= KEPT_MAX:
                    del self._configs[next(iter(self._configs))]
                self._configs[topic] = (config, self._clock.monotonic())
                return config
        return None if kept is None else kept[0]

    async def _ask_config(self, topic: str, address: str | None) -> TopicConfig | None:
        if address is None:
            return None
        command = Command(RequestCode.GET_TOPIC_CONFIG, ext=write_header(GetTopicConfig(topic=topic)))
        try:
            answer = await self._links.request(address, command, ASK_S_MAX)
            return read_body(TopicConfig, answer.body) if answer.code == ResponseCode.SUCCESS else None
        except (PyroError, ProtocolError):
            return None

    async def master_of(self, broker_name: str, topic: str) -> str | None:
        """Return the address of another broker's master, None where nobody knows it."""
        part = next((part for part in await self.find(topic) if part.name == broker_name), None)
        return None if part is None else part.addresses.get(MASTER_ID)

    async def close(self) -> None:
        """Stop what is under way."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _own_part(self, topic: str, told: BrokerPart | None) -> BrokerPart | None:
        config = self._topics.get(topic)
        if config is None:
            return None
        settings = self._settings
        addresses = {} if told is None else dict(told.addresses)
        addresses[settings.broker_id] = self._addresses.advertised
        return BrokerPart(
            settings.broker_name,
            addresses,
            config.read_queue_nums,
            config.write_queue_nums,
            config.perm & settings.broker_permission,
        )

    async def _route(self, topic: str) -> TopicRoute | None:
        """Return what a name server says, asked once for all who want to know."""
        if not self._name_servers.addresses:
            return None
        kept = self._kept.get(topic)
        if kept is not None and self._clock.monotonic() - kept.asked_at < FRESH_S:
            return kept.route
        asking = self._asking.get(topic)
        if asking is None:
            asking = asyncio.get_running_loop().create_task(self._ask(topic, kept), name="ask for a route")
            self._asking[topic] = asking
            asking.add_done_callback(lambda _: self._asking.pop(topic, None))
        return await asyncio.shield(asking)

    async def _ask(self, topic: str, kept: _Kept | None) -> TopicRoute | None:
        route = None if kept is None else kept.route
        header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
        for address in self._name_servers.addresses:
            command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=write_header(header))
            try:
                answer = await self._links.request(address, command, ASK_S_MAX)
                if answer.code == ResponseCode.SUCCESS:
                    route = decode_route(answer.body)
                    await self._find_doors(address, route)
                    break
                if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                    route = None
                    break
            except (PyroError, ProtocolError):
                continue
        self._keep(topic, route)
        return route

    async def _find_doors(self, name_server: str, route: TopicRoute) -> None:
        brokers = route.broker_datas
        await asyncio.gather(
            *(self._book.look(name_server, one.broker_name, one.broker_addrs.values()) for one in brokers)
        )

    def _keep(self, topic: str, route: TopicRoute | None) -> None:
        self._kept.pop(topic, None)
        if route is None:
            # Anybody may ask for topics that are not there; nothing is kept of those.
            return
        if len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[topic] = _Kept(route, self._clock.monotonic())


def _parts_of(route: TopicRoute) -> dict[str, BrokerPart]:
    addresses = {data.broker_name: data.broker_addrs for data in route.broker_datas}
    return {
        queues.broker_name: BrokerPart(
            queues.broker_name,
            dict(addresses[queues.broker_name]),
            queues.read_queue_nums,
            queues.write_queue_nums,
            queues.perm,
        )
        for queues in route.queue_datas
        if queues.broker_name in addresses
    }
