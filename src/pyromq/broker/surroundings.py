"""The servers around a broker: its name servers, and the other masters of its cluster.

`Surroundings` owns the broker's own connections. The broker joins its cluster before it serves, registers
once it does, and leaves when it stops.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from pyromq.broker.access.access_wiring import own_signer
from pyromq.broker.addresses import BrokerAddresses
from pyromq.broker.background import Background
from pyromq.broker.durability.acknowledgement import Lease
from pyromq.broker.groups.groups import GroupTable
from pyromq.broker.registration import FIRST_PERIOD_MS, Registration
from pyromq.broker.registration_targets import RegistrationTargets
from pyromq.broker.topics.joining import Neighbours
from pyromq.broker.topics.topic_routes import TopicRoutes, own_queues
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.config.settings import BrokerProcess
from pyromq.net.discovery import FIRST_REFRESH_MS
from pyromq.net.links import Links

#: Seconds that the name servers have before a replica goes on; they are told again soon.
ELECTED_S_MAX: Final = 0.5


class Surroundings:
    """The connections of one broker to other servers, and its registration."""

    def __init__(
        self,
        settings: BrokerProcess,
        clock: Clock,
        topics: TopicTable,
        addresses: BrokerAddresses,
        lease: Lease,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self.name_servers = RegistrationTargets(settings.broker)
        self.links = Links(
            settings.net, clock=clock, name=settings.broker.broker_name, sign=own_signer(settings.broker)
        )
        self.routes = TopicRoutes(
            self.links,
            self.name_servers,
            clock,
            own=partial(own_queues, topics, broker_name=settings.broker.broker_name),
        )
        self._neighbours = Neighbours(self.links, settings.broker, self.name_servers)
        self.registration = Registration(
            self.links,
            topics,
            settings.broker,
            name_servers=self.name_servers,
            address=addresses.advertised,
            ha_address=addresses.ha,
            lease=lease,
        )

    async def join(self, groups: GroupTable) -> None:
        """Find the name servers, and take over the cluster's topics and groups where this is wanted."""
        await self._unless_elected(self.name_servers.refresh)
        self._topics.on_inherited = self._neighbours.spread
        await self._neighbours.join(self._topics, groups)
        self.name_servers.on_change = self.registration.register_soon

    async def register(self) -> None:
        """Make the broker known, and each change of its topics from now on."""
        await self._unless_elected(self.registration.register)
        self._topics.on_change = self.registration.register_soon

    def run_jobs(self, background: Background) -> None:
        """Register, and look for other name servers, from now on."""
        background.every(
            "register",
            self.registration.period_ms / 1000,
            self.registration.register,
            first_s=FIRST_PERIOD_MS / 1000,
        )
        background.every(
            "ask for the name servers",
            lambda: self.name_servers.pause_s,
            self.name_servers.refresh,
            first_s=FIRST_REFRESH_MS / 1000,
        )

    async def close(self) -> None:
        """End all requests and connections."""
        await self.routes.close()
        await self._neighbours.close()
        await self.name_servers.close()
        await self.links.close()

    async def _unless_elected(self, tell: Callable[[], Awaitable[None]]) -> None:
        """Wait for other servers, but not for long with failover: clients wait for the new master."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ELECTED_S_MAX if self._settings.broker.failover else None):
                await tell()
