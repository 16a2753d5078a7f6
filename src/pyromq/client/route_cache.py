"""Topic → queues and brokers → addresses, as the name servers told, and when to ask again.

A topic that no name server knows gets the route of TBW102 ("guessed"): the broker creates the topic when the
first message comes, and the next look finds its own route.

Reads take what is there; `put` replaces whole entries under a lock, so threads never see half a route.
"""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyromq.clock import Clock
from pyromq.codes import Perm
from pyromq.errors import RemoteProtocolError
from pyromq.model import MessageQueue
from pyromq.wire.bodies.route_bodies import BrokerData, BrokerQueues, TopicRoute

MASTER_ID: Final = 0
#: A failed send makes its route stale; a route is not asked for again sooner than this.
STALE_MS_MIN: Final = 1_000
#: The same of a route that has no queue to use, or whose master seems gone: there is nothing to do but ask.
EMPTY_MS_MIN: Final = 200
#: An address that gave no answer is the last choice to read from for so long.
AWAY_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class CachedRoute:
    """One topic's route, and the queues that follow from it."""

    route: TopicRoute
    write_queues: tuple[MessageQueue, ...]
    read_queues: tuple[MessageQueue, ...]
    is_ordered: bool
    fetched_at_ms: int

    @property
    def broker_names(self) -> list[str]:
        """The brokers that the route names."""
        return sorted(broker.broker_name for broker in self.route.broker_datas)

    @property
    def has_lost_master(self) -> bool:
        """Whether a broker could be sent to if it had a master."""
        with_master = {
            broker.broker_name for broker in self.route.broker_datas if MASTER_ID in broker.broker_addrs
        }
        return any(
            queues.perm & Perm.WRITE and queues.write_queue_nums > 0 and queues.broker_name not in with_master
            for queues in self.route.queue_datas
        )


@dataclass(slots=True)
class RouteCache:
    """All routes that this client knows."""

    clock: Clock
    _routes: dict[str, CachedRoute] = field(default_factory=dict)
    _addresses: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    _stale: set[str] = field(default_factory=set)
    #: Until when addresses are the last choice to read from.
    _away: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    #: Another number whenever something follows otherwise from the routes than before.
    revision: int = 0

    def get(self, topic: str) -> CachedRoute | None:
        """Return a topic's route, however old."""
        return self._routes.get(topic)

    def put(self, topic: str, route: TopicRoute) -> bool:
        """Keep what a name server said, and return whether it differs; queues are built only then.

        Where the route's brokers are, it says for all topics: others' routes may be older.
        """
        with self._lock:
            addresses = _addresses_of(route)
            old = self._routes.get(topic)
            if old is not None and is_same_route(old.route, route):
                self._refreshed(topic, old)
                if any(self._addresses.get(name) != ids for name, ids in addresses.items()):
                    self._addresses = {**self._addresses, **addresses}
                    self.revision += 1
                return False
            self._stale.discard(topic)
            now_ms = self.clock.now_ms()
            self._routes[topic] = CachedRoute(
                route,
                tuple(write_queues(topic, route)),
                tuple(read_queues(topic, route)),
                bool(route.order_topic_conf),
                now_ms,
            )
            # Brokers that no route names any more fall out here; RocketMQ sweeps them every 30 s.
            named = {
                broker.broker_name for known in self._routes.values() for broker in known.route.broker_datas
            }
            merged = {**self._addresses, **addresses}
            self._addresses = {name: ids for name, ids in merged.items() if name in named}
            self.revision += 1
            return True

    def keep(self, topic: str) -> None:
        """Go on with a route that nobody could tell anew, and do not ask again at once."""
        with self._lock:
            known = self._routes.get(topic)
            if known is not None:
                self._refreshed(topic, known)

    def _refreshed(self, topic: str, known: CachedRoute) -> None:
        self._stale.discard(topic)
        self._routes[topic] = CachedRoute(
            known.route, known.write_queues, known.read_queues, known.is_ordered, self.clock.now_ms()
        )

    def mark_stale(self, topic: str) -> None:
        """Say that the route led nowhere: whoever needs it next should ask the name server again."""
        with self._lock:
            if topic in self._routes and topic not in self._stale:
                self._stale.add(topic)
                self.revision += 1

    def is_stale(self, topic: str) -> bool:
        """Whether the route led nowhere, and was not asked for since."""
        return topic in self._stale

    def wants_refresh(self, topic: str) -> bool:
        """Whether the route is missing, or was marked stale and is not brand-new."""
        known = self._routes.get(topic)
        if known is None:
            return True
        return topic in self._stale and self.clock.now_ms() - known.fetched_at_ms >= STALE_MS_MIN

    def is_fresh(self, topic: str) -> bool:
        """Whether the route was asked for just now, and it would be no use to ask again."""
        known = self._routes.get(topic)
        return known is not None and self.clock.now_ms() - known.fetched_at_ms < EMPTY_MS_MIN

    def note_away(self, address: str) -> None:
        """Note that a broker gave no answer: until it is tried again, others of its group are read from."""
        self._away[address] = self.clock.now_ms() + AWAY_MS

    def topics(self) -> list[str]:
        """Return the topics to refresh."""
        return list(self._routes)

    def addresses(self, broker_name: str) -> Mapping[int, str]:
        """Return where the brokers of a group are, by their ids; empty for a group that no route names."""
        return self._addresses.get(broker_name, {})

    def master_address(self, broker_name: str) -> str | None:
        """Return where a broker takes messages."""
        return self._addresses.get(broker_name, {}).get(MASTER_ID)

    def reading_address(self, broker_name: str, broker_id: int = MASTER_ID) -> tuple[int, str] | None:
        """Return id and address of the broker to read from: the wanted one, else the next, else any.

        One that gave no answer lately is the last choice.
        """
        addresses = self._addresses.get(broker_name, {})
        # RocketMQ tries the wanted slave's neighbour before it takes any (findBrokerAddressInSubscribe).
        wanted = (broker_id,) if broker_id == MASTER_ID else (broker_id, broker_id + 1)
        candidates = [candidate for candidate in (*wanted, *sorted(addresses)) if candidate in addresses]
        if self._away:
            candidates.sort(key=lambda candidate: self._is_away(addresses[candidate]))
        return (candidates[0], addresses[candidates[0]]) if candidates else None

    def _is_away(self, address: str) -> bool:
        until_ms = self._away.get(address)
        if until_ms is not None and self.clock.now_ms() >= until_ms:
            self._away.pop(address, None)
            return False
        return until_ms is not None

    def master_addresses(self) -> list[str]:
        """Return the address of every known master, each once."""
        return list(dict.fromkeys(ids[MASTER_ID] for ids in self._addresses.values() if MASTER_ID in ids))

    def all_addresses(self) -> list[str]:
        """Return the address of every known broker, slaves too, each once."""
        return list(dict.fromkeys(address for ids in self._addresses.values() for address in ids.values()))


def write_queues(topic: str, route: TopicRoute) -> Iterator[MessageQueue]:
    """Yield the queues that may be sent to, by broker.

    An ordered topic has the queues of its `broker:count;broker:count`, whether the broker is there or not:
    a message must not change its queue because a broker is away.
    """
    if route.order_topic_conf:
        for part in filter(None, route.order_topic_conf.split(";")):
            broker_name, _, count = part.partition(":")
            if not count.isdecimal():
                raise RemoteProtocolError(
                    f"the order configuration of topic {topic!r} is {route.order_topic_conf!r}; it should be "
                    "like `broker-a:4;broker-b:4`"
                )
            for queue_id in range(int(count)):
                yield MessageQueue(topic, broker_name, queue_id)
        return
    with_master = {broker.broker_name for broker in route.broker_datas if MASTER_ID in broker.broker_addrs}
    for queues in sorted(route.queue_datas, key=lambda queues: queues.broker_name):
        if queues.perm & Perm.WRITE and queues.broker_name in with_master:
            for queue_id in range(queues.write_queue_nums):
                yield MessageQueue(topic, queues.broker_name, queue_id)


def read_queues(topic: str, route: TopicRoute) -> Iterator[MessageQueue]:
    """Yield the queues that may be read, by broker; a slave alone is enough to read from."""
    for queues in sorted(route.queue_datas, key=lambda queues: queues.broker_name):
        if queues.perm & Perm.READ:
            for queue_id in range(queues.read_queue_nums):
                yield MessageQueue(topic, queues.broker_name, queue_id)


def is_same_route(one: TopicRoute, other: TopicRoute) -> bool:
    """Return whether two routes say the same, in whatever order."""
    return (
        one.order_topic_conf == other.order_topic_conf
        and sorted(one.queue_datas, key=_by_broker) == sorted(other.queue_datas, key=_by_broker)
        and sorted(one.broker_datas, key=_by_broker) == sorted(other.broker_datas, key=_by_broker)
    )


def _by_broker(entry: BrokerData | BrokerQueues) -> str:
    return entry.broker_name


def _addresses_of(route: TopicRoute) -> dict[str, dict[int, str]]:
    return {broker.broker_name: dict(broker.broker_addrs) for broker in route.broker_datas}
