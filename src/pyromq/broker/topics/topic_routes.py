"""The routes of topics, as the name servers tell them: a broker itself knows only its own queues."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyromq.broker.registration_targets import RegistrationTargets
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import Perm, RequestCode, ResponseCode
from pyromq.errors import PyroError, refusal
from pyromq.model import MessageQueue
from pyromq.net.links import Links
from pyromq.wire.bodies.route_bodies import TopicRoute, decode_route
from pyromq.wire.command import Command
from pyromq.wire.header import write_header
from pyromq.wire.headers.namesrv_headers import GetRouteInfo

log = logging.getLogger(__name__)

#: Seconds that a name server has for its answer, and that an answer is used.
ANSWER_S_MAX: Final = 3.0
KEPT_S: Final = 30.0
#: Topics whose routes are kept; the ones that were asked for first go first.
ROUTES_MAX: Final = 10_000
#: Queues of a topic on one broker that are taken for real.
QUEUES_MAX: Final = 65_536


@dataclass(frozen=True, slots=True)
class _Kept:
    route: TopicRoute | None
    until: float


class TopicRoutes:
    """Routes of topics on all brokers of the cluster, asked for when they are needed and kept for 30 s.

    `own` returns the own queues of a topic, None for an unknown one: all there is without name servers.
    """

    def __init__(
        self,
        links: Links,
        name_servers: RegistrationTargets,
        clock: Clock,
        own: Callable[[str], list[MessageQueue] | None],
    ) -> None:
        self._links = links
        self._name_servers = name_servers
        self._clock = clock
        self._own = own
        self._kept: dict[str, _Kept] = {}
        self._asking: dict[str, asyncio.Task[TopicRoute | None]] = {}

    async def readable_queues(self, topic: str) -> list[MessageQueue] | None:
        """Return all queues of a topic that may be read, on all brokers; None when there is no route."""
        if not self._name_servers.addresses:
            return self._own(topic)
        route = await self.route(topic)
        if route is None:
            return None
        return sorted(
            MessageQueue(topic, queues.broker_name, queue_id)
            for queues in route.queue_datas
            if queues.perm & Perm.READ
            for queue_id in range(min(queues.read_queue_nums, QUEUES_MAX))
        )

    async def route(self, topic: str) -> TopicRoute | None:
        """Return a topic's route, None when it has none, or when no name server answers."""
        kept = self._kept.get(topic)
        if kept is not None and self._clock.monotonic() < kept.until:
            return kept.route
        task = self._asking.get(topic)
        if task is None:
            task = self._asking[topic] = asyncio.get_running_loop().create_task(
                self._ask(topic), name=f"ask for the route of {topic}"
            )
            task.add_done_callback(lambda _: self._asking.pop(topic, None))
        # Others wait for the same answer: it must survive the one that gives up.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """End all questions."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _ask(self, topic: str) -> TopicRoute | None:
        command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=write_header(GetRouteInfo(topic=topic)))
        for address in self._name_servers.addresses:
            try:
                answer = await self._links.request(address, command, ANSWER_S_MAX)
                if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                    return self._keep(topic, None)
                if answer.code != ResponseCode.SUCCESS:
                    raise refusal(answer.code, answer.remark)
                return self._keep(topic, decode_route(answer.body))
            except PyroError as error:
                log.warning("%s does not tell the route of %s: %s", address, topic, error)
        # An old route is better than none.
        kept = self._kept.get(topic)
        return None if kept is None else kept.route

    def _keep(self, topic: str, route: TopicRoute | None) -> TopicRoute | None:
        self._kept.pop(topic, None)
        if route is not None:
            self._kept[topic] = _Kept(route, self._clock.monotonic() + KEPT_S)
            while len(self._kept) > ROUTES_MAX:
                del self._kept[next(iter(self._kept))]
        return route


def own_queues(topics: TopicTable, topic: str, *, broker_name: str) -> list[MessageQueue] | None:
    """Return the queues of a topic that this broker has and that may be read; None for an unknown topic."""
    config = topics.get(topic)
    if config is None:
        return None
    count = config.read_queue_nums if config.perm & Perm.READ else 0
    return [MessageQueue(topic, broker_name, queue_id) for queue_id in range(count)]
