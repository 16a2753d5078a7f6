"""The route table: five tables in memory, filled by the brokers' registrations.

    topics      topic → broker name → its queues there
    brokers     broker name → cluster, and addresses by broker id (0 is the master)
    clusters    cluster → broker names
    live        address → when it last spoke, over which link, and how old its topics are
    filters     address → filter servers; nobody has any today, but the route still lists them

Pure: no sockets, no clock. Whoever calls says what time it is, in seconds of a clock that never goes back.
A link stands only for itself: a broker whose link ended is gone.

Lists come in the order in which RocketMQ's hash maps list them, so that answers can be compared byte for
byte.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from pyromq.codes import Perm, TopicSysFlag
from pyromq.name_rules import shortened, why_no_stored_topic
from pyromq.wire.bodies.list_bodies import TopicList
from pyromq.wire.bodies.route_bodies import BrokerData, BrokerQueues, ClusterTable, TopicRoute
from pyromq.wire.bodies.topic_bodies import DataVersion, TopicConfig, TopicConfigTable
from pyromq.wire.java_hash import java_map_order

_log = logging.getLogger("pyromq.namesrv")

MASTER_ID = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A broker's registration."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    topics: TopicConfigTable = field(default_factory=TopicConfigTable)
    filter_servers: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Master:
    """The addresses of a slave's master: for clients, and for replication."""

    address: str
    ha_address: str


@dataclass(slots=True)
class _Broker:
    cluster: str
    addresses: dict[int, str]


@dataclass(slots=True)
class _Live:
    heard_at_s: float
    topics_version: DataVersion
    link: object
    ha_address: str


class RouteTable:
    """The five tables, and all that may happen to them."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, BrokerQueues]] = {}
        self._brokers: dict[str, _Broker] = {}
        self._clusters: dict[str, set[str]] = {}
        self._live: dict[str, _Live] = {}
        self._filters: dict[str, list[str]] = {}
        #: Told of each topic whose route is another now; None: the routes of any topics may be.
        self.on_changed: Callable[[str | None], None] = lambda _topic: None

    # Brokers come and go -------------------------------------------------------------------------------

    def register(self, said: BrokerRegistration, *, link: object, now_s: float) -> Master | None:
        """Take in what a broker says, and tell a slave where its master is.

        Only a master's topics count, and only when they are another version than the last ones from its
        address, or the broker is new: what an operator changed here (write permission) lasts until then.
        """
        self._clusters.setdefault(said.cluster, set()).add(said.broker_name)
        broker = self._brokers.get(said.broker_name)
        if broker is None:
            broker = self._brokers[said.broker_name] = _Broker(said.cluster, {})
        is_new = broker.addresses.get(said.broker_id) is None
        # An address has one id: a slave that became master must not stay a slave too.
        before = dict(broker.addresses)
        for broker_id, address in before.items():
            if address == said.address and broker_id != said.broker_id:
                del broker.addresses[broker_id]
        broker.addresses[said.broker_id] = said.address
        if broker.addresses != before or said.filter_servers != self._filters.get(said.address, []):
            self.on_changed(None)

        version = said.topics.data_version
        if said.broker_id == MASTER_ID and (is_new or self.has_changed(said.address, version)):
            for topic in said.topics.topic_config_table.values():
                fault = why_no_stored_topic(topic.topic_name)
                if fault is None:
                    self._set_queues(said.broker_name, topic)
                else:
                    name = shortened(topic.topic_name)
                    _log.warning("topic %s of broker %s is left out: %s", name, said.broker_name, fault)
        self._live[said.address] = _Live(now_s, version, link, said.ha_address)
        if said.filter_servers:
            self._filters[said.address] = said.filter_servers
        else:
            self._filters.pop(said.address, None)
        return None if said.broker_id == MASTER_ID else self._master_of(broker)

    def unregister(self, *, broker_name: str, broker_id: int, address: str) -> None:
        """Forget a broker that says goodbye."""
        self._live.pop(address, None)
        self._filters.pop(address, None)
        broker = self._brokers.get(broker_name)
        # RocketMQ 4.9 removes the id whoever has it by now; 5.x, like this, only while it is that address:
        # a master that was replaced and stops late must not take its successor along.
        self.on_changed(None)
        if broker is None or broker.addresses.get(broker_id) != address:
            return
        del broker.addresses[broker_id]
        if not broker.addresses:
            self._forget_broker(broker_name)

    def drop_link(self, link: object) -> list[str]:
        """Forget the brokers that spoke over a link that ended, and return their addresses."""
        gone = [address for address, live in self._live.items() if live.link is link]
        for address in gone:
            self._drop(address)
        return gone

    def drop_silent(self, *, now_s: float, silence_s: float) -> dict[str, object]:
        """Forget the brokers that were silent for longer than that, and return their links by address."""
        gone = {
            address: live.link for address, live in self._live.items() if live.heard_at_s + silence_s < now_s
        }
        for address in gone:
            self._drop(address)
        return gone

    def is_registered(self, broker_name: str, broker_id: int, address: str) -> bool:
        """Return whether a broker is in the table as it says that it is, with topics of some version."""
        broker = self._brokers.get(broker_name)
        return broker is not None and broker.addresses.get(broker_id) == address and address in self._live

    def version_of(self, address: str) -> DataVersion | None:
        """Return the version of the topics that a broker registered last."""
        live = self._live.get(address)
        return None if live is None else live.topics_version

    def has_changed(self, address: str, version: DataVersion) -> bool:
        """Whether a broker with topics of this version has news."""
        return self.version_of(address) != version

    def hear(self, address: str, *, now_s: float) -> None:
        """Note that a broker is alive though it has no news."""
        live = self._live.get(address)
        if live is not None:
            live.heard_at_s = now_s

    # What clients ask ----------------------------------------------------------------------------------

    def route(self, topic: str) -> TopicRoute | None:
        """Return who serves a topic, or None when nobody does."""
        queues = self._topics.get(topic)
        if queues is None:
            return None
        names = java_map_order(tuple(queues))
        brokers = [self._addresses(name) for name in names if name in self._brokers]
        if not brokers:
            return None
        addresses = [address for broker in brokers for address in broker.broker_addrs.values()]
        return TopicRoute(
            queue_datas=[queues[name] for name in names],
            broker_datas=brokers,
            filter_server_table={
                address: self._filters[address] for address in addresses if address in self._filters
            },
        )

    def cluster_table(self) -> ClusterTable:
        """Return all brokers, and the brokers of each cluster."""
        return ClusterTable(
            broker_addr_table={name: self._addresses(name) for name in self._brokers},
            cluster_addr_table={
                cluster: list(java_map_order(tuple(self._clusters[cluster])))
                for cluster in java_map_order(tuple(self._clusters))
            },
        )

    # What metrics tell ---------------------------------------------------------------------------------

    @property
    def topic_count(self) -> int:
        """The number of topics."""
        return len(self._topics)

    def count_brokers(self) -> dict[str, int]:
        """Return how many brokers each cluster has, slaves too."""
        counted = dict.fromkeys(self._clusters, 0)
        for broker in self._brokers.values():
            counted[broker.cluster] = counted.get(broker.cluster, 0) + len(broker.addresses)
        return counted

    def silences(self, now_s: float) -> dict[str, float]:
        """Return for how many seconds each broker was silent, by address."""
        return {address: now_s - live.heard_at_s for address, live in self._live.items()}

    # What operators ask --------------------------------------------------------------------------------

    def topics(self) -> TopicList:
        """Return all topics."""
        return _listed(self._topics)

    def topics_of(self, cluster: str) -> TopicList:
        """Return the topics that a cluster's brokers have; none for a cluster that is not there."""
        names = self._clusters.get(cluster, set())
        return _listed(topic for topic, queues in self._topics.items() if not names.isdisjoint(queues))

    def system_topics(self) -> TopicList:
        """Return the names that double as topics, clusters' and brokers', and one broker's address."""
        names = [*self._clusters, *(name for names in self._clusters.values() for name in names)]
        addresses = (address for broker in self._brokers.values() for address in broker.addresses.values())
        return _listed(names, broker_address=next(addresses, None))

    def unit_topics(self) -> TopicList:
        """Return the topics that belong to a unit."""
        return self._topics_flagged(lambda flag: bool(flag & TopicSysFlag.UNIT))

    def unit_sub_topics(self) -> TopicList:
        """Return the topics with subscriptions by unit."""
        return self._topics_flagged(lambda flag: bool(flag & TopicSysFlag.UNIT_SUB))

    def unit_sub_ununit_topics(self) -> TopicList:
        """Return the topics with subscriptions by unit that do not belong to a unit themselves."""
        return self._topics_flagged(
            lambda flag: flag & (TopicSysFlag.UNIT | TopicSysFlag.UNIT_SUB) == TopicSysFlag.UNIT_SUB
        )

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic's route, on the brokers of one cluster or on all."""
        self.on_changed(topic)
        if cluster is None:
            self._topics.pop(topic, None)
            return
        queues = self._topics.get(topic)
        if queues is None:
            return
        for name in self._clusters.get(cluster, ()):
            queues.pop(name, None)
        if not queues:
            del self._topics[topic]

    def wipe_write_permission(self, broker_name: str) -> int:
        """Let no producer choose a broker; return how many topics it has."""
        return self._change_permission(broker_name, lambda perm: perm & ~Perm.WRITE)

    def add_write_permission(self, broker_name: str) -> int:
        """Let producers choose a broker again; return how many topics it has."""
        return self._change_permission(broker_name, lambda _: Perm.READ | Perm.WRITE)

    # Inside --------------------------------------------------------------------------------------------

    def _set_queues(self, broker_name: str, topic: TopicConfig) -> None:
        queues = BrokerQueues(
            broker_name=broker_name,
            read_queue_nums=topic.read_queue_nums,
            write_queue_nums=topic.write_queue_nums,
            perm=topic.perm,
            topic_sys_flag=topic.topic_sys_flag,
        )
        by_broker = self._topics.setdefault(topic.topic_name, {})
        if by_broker.get(broker_name) != queues:
            by_broker[broker_name] = queues
            self.on_changed(topic.topic_name)

    def _master_of(self, broker: _Broker) -> Master | None:
        address = broker.addresses.get(MASTER_ID)
        live = None if address is None else self._live.get(address)
        return None if address is None or live is None else Master(address, live.ha_address)

    def _addresses(self, broker_name: str) -> BrokerData:
        broker = self._brokers[broker_name]
        return BrokerData(
            cluster=broker.cluster, broker_name=broker_name, broker_addrs=dict(broker.addresses)
        )

    def _drop(self, address: str) -> None:
        self.on_changed(None)
        self._live.pop(address, None)
        self._filters.pop(address, None)
        for broker_name, broker in tuple(self._brokers.items()):
            for broker_id, known in tuple(broker.addresses.items()):
                if known == address:
                    del broker.addresses[broker_id]
            if not broker.addresses:
                self._forget_broker(broker_name)

    def _forget_broker(self, broker_name: str) -> None:
        del self._brokers[broker_name]
        for cluster, names in tuple(self._clusters.items()):
            names.discard(broker_name)
            if not names:
                del self._clusters[cluster]
        for topic, queues in tuple(self._topics.items()):
            queues.pop(broker_name, None)
            if not queues:
                del self._topics[topic]

    def _topics_flagged(self, wanted: Callable[[int], bool]) -> TopicList:
        # RocketMQ looks at one broker's queues only; the flag is the topic's, not the broker's.
        return _listed(
            topic
            for topic, queues in self._topics.items()
            if wanted(next(iter(queues.values())).topic_sys_flag)
        )

    def _change_permission(self, broker_name: str, change: Callable[[int], int]) -> int:
        self.on_changed(None)
        count = 0
        for queues in self._topics.values():
            mine = queues.get(broker_name)
            if mine is not None:
                queues[broker_name] = msgspec.structs.replace(mine, perm=int(change(mine.perm)))
                count += 1
        return count


def _listed(names: Iterable[str], *, broker_address: str | None = None) -> TopicList:
    unique = tuple(dict.fromkeys(names))
    return TopicList(topic_list=list(java_map_order(unique)), broker_addr=broker_address)
