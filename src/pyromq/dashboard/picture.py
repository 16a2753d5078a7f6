"""The dashboard's picture of a cluster: the answers of the last snapshots, and the charts of all of them.

No snapshot asks about every topic and every group, and a broker may not answer. So the picture keeps the
last answer that each broker gave about each topic and group.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar

from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.namespaces import DEAD_LETTER_TOPIC_PREFIX
from pyromq.client.observation.counts import POINTS_MAX, CountSeries
from pyromq.client.observation.snapshot import BrokerSnapshot, ClusterSnapshot, Question
from pyromq.model import MessageQueue
from pyromq.system_names import is_system_group, is_system_topic
from pyromq.wire.bodies.connection_bodies import ConsumerConnections
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.offset_bodies import GroupProgress, TopicOffset
from pyromq.wire.bodies.operation_bodies import ProducerClient
from pyromq.wire.bodies.replica_bodies import ReplicaList
from pyromq.wire.bodies.topic_bodies import TopicConfig

#: Points of the cluster's charts that are kept: half an hour of rounds.
CLUSTER_POINTS_MAX: Final = 900
#: Milliseconds for which a broker is shown that no name server knows any more.
GONE_MS: Final = 60 * 60_000

Config = TypeVar("Config", TopicConfig, SubscriptionGroupConfig)


class NameKind(StrEnum):
    """The kind of a topic or a group, by its owner."""

    NORMAL = "normal"
    RETRY = "retry"
    DEAD = "dead"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class GoneBroker:
    """A broker that this dashboard has seen, and that no name server knows any more."""

    broker: BrokerSnapshot
    since_ms: int


@dataclass(slots=True)
class TopicPicture:
    """A topic: its settings on each broker, its queues' edges, its rate."""

    name: str
    kind: NameKind
    configs: dict[str, TopicConfig] = field(default_factory=dict)
    edges: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    looked_at_ms: int = 0
    series: CountSeries = field(default_factory=CountSeries)
    failure: str | None = None

    @property
    def held(self) -> int:
        """The number of messages in the topic."""
        return sum(max(0, edge.max_offset - edge.min_offset) for edge in self.edges.values())

    @property
    def last_stored_ms(self) -> int:
        """The time at which the last message was stored; 0 when none is there."""
        return max((edge.last_update_timestamp for edge in self.edges.values()), default=0)

    @property
    def is_moving(self) -> bool:
        """Whether messages came in lately."""
        return bool(self.series.rate)


@dataclass(slots=True)
class GroupPicture:
    """A consumer group: its settings on each broker, how far it is, who is in it."""

    name: str
    kind: NameKind
    configs: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    #: Topic → queue → the offset that it reads next.
    offsets: dict[str, dict[MessageQueue, int]] = field(default_factory=dict)
    #: Of queues that it pops: what is handed out next, and what is in flight.
    popped: dict[MessageQueue, GroupProgress] = field(default_factory=dict)
    #: By broker; None while nobody has looked.
    connections: dict[str, ConsumerConnections] | None = None
    looked_at_ms: int = 0
    failure: str | None = None
    series: CountSeries = field(default_factory=CountSeries)
    lag: int = 0
    lags: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=POINTS_MAX))

    @property
    def in_flight(self) -> int | None:
        """The number of messages that are popped and not finished; None where it does not pop."""
        return sum(one.in_flight or 0 for one in self.popped.values()) if self.popped else None

    @property
    def member_ids(self) -> set[str] | None:
        """The ids of those connected; None while that is not known."""
        if self.connections is None:
            return None
        return {one.client_id for each in self.connections.values() for one in each.connections}


@dataclass(slots=True)
class Health:
    """The doctor's last report, and the state of a running examination."""

    #: `HealthReport.as_json` of the last examination that came to an end; None before the first.
    report: dict[str, Any] | None = None
    #: The titles of the checks that it made.
    checks: list[str] = field(default_factory=list)
    taken_at_ms: int = 0
    #: When the last one ended, with or without a report.
    tried_at_ms: int = 0
    #: What is being looked at; None while nothing is.
    doing: str | None = None
    #: Why the last one has no report, and the next step.
    failure: tuple[str, str] | None = None


@dataclass(slots=True)
class Picture:
    """All that is known."""

    taken_at_ms: int = 0
    round_count: int = 0
    brokers: list[BrokerSnapshot] = field(default_factory=list)
    gone: list[GoneBroker] = field(default_factory=list)
    topics: dict[str, TopicPicture] = field(default_factory=dict)
    groups: dict[str, GroupPicture] = field(default_factory=dict)
    #: Producer group → members, of all brokers; None while no broker has said.
    producers: dict[str, dict[str, ProducerClient]] | None = None
    replicas: dict[str, ReplicaList] = field(default_factory=dict)
    health: Health = field(default_factory=Health)
    #: What could not be found out, and why.
    troubles: dict[str, str] = field(default_factory=dict)
    incoming: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=CLUSTER_POINTS_MAX))
    outgoing: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=CLUSTER_POINTS_MAX))

    @property
    def masters(self) -> list[BrokerSnapshot]:
        """The brokers that take messages and orders."""
        return [broker for broker in self.brokers if broker.is_master]

    def master(self, name: str) -> BrokerSnapshot | None:
        """Return the master of a name, if one is known."""
        return next((broker for broker in self.masters if broker.broker_name == name), None)

    def kind_of_topic(self, name: str) -> NameKind:
        """Return whose a topic is; each broker and each cluster has one of its own name."""
        if name.startswith(RETRY_TOPIC_PREFIX):
            return NameKind.RETRY
        if name.startswith(DEAD_LETTER_TOPIC_PREFIX):
            return NameKind.DEAD
        own = {name for broker in self.brokers for name in (broker.broker_name, broker.cluster)}
        return NameKind.SYSTEM if name in own or is_system_topic(name) else NameKind.NORMAL

    # Answers of snapshots

    def take_brokers(self, brokers: Sequence[BrokerSnapshot], now_ms: int) -> None:
        """Replace the brokers; one that is not among them any more is gone."""
        there = {broker.address for broker in brokers}
        self.gone = [
            one
            for one in (*self.gone, *(GoneBroker(broker, now_ms) for broker in self.brokers))
            if one.broker.address not in there and now_ms - one.since_ms < GONE_MS
        ]
        self.brokers = list(brokers)

    def take_tables(self, seen: ClusterSnapshot) -> None:
        """Take over the configurations of topics and groups, the producers and the replicas."""
        known = self._known_brokers()
        for name in seen.topics.keys() - self.topics.keys():
            self.topics[name] = TopicPicture(name, self.kind_of_topic(name))
        of_topics, of_groups = (seen.answered.get(one, set()) for one in (Question.TOPICS, Question.GROUPS))
        for topic in self.topics.values():
            old, new = topic.configs, seen.topics.get(topic.name, {})
            topic.configs = _renewed(old, new, known - of_topics)
            if old.keys() - topic.configs.keys():
                topic.edges = {
                    queue: edge for queue, edge in topic.edges.items() if queue.broker_name in topic.configs
                }
        self.topics = {name: topic for name, topic in self.topics.items() if topic.configs}
        for name in seen.groups:
            self._group(name)
        for group in self.groups.values():
            group.configs = _renewed(group.configs, seen.groups.get(group.name, {}), known - of_groups)
        self.producers = seen.producers if Question.PRODUCERS in seen.answered else None
        names = {broker.broker_name for broker in self.brokers}
        self.replicas = {
            name: listed for name, listed in (self.replicas | seen.replicas).items() if name in names
        }

    def take_offsets(self, seen: ClusterSnapshot, now_ms: int) -> None:
        """Take over the offsets of all groups; a group without configuration and offsets is no more."""
        kept_from = self._known_brokers() - seen.answered.get(Question.OFFSETS, set())
        for name in seen.offsets:
            self._group(name)
        for group in list(self.groups.values()):
            new = seen.offsets.get(group.name, {})
            group.offsets = _renewed_offsets(group.offsets, new, kept_from) if kept_from else new
            if not group.configs and not group.offsets:
                del self.groups[group.name]
                continue
            group.series.add(now_ms, sum(sum(offsets.values()) for offsets in group.offsets.values()))

    def take_queues(self, seen: ClusterSnapshot, topics: Iterable[TopicPicture], now_ms: int) -> None:
        """Take over the queues of these topics; the old ones stay where a broker did not answer."""
        edges: dict[str, dict[MessageQueue, TopicOffset]] = {}
        for queue, edge in seen.queues.items():
            edges.setdefault(queue.topic, {})[queue] = edge
        for topic in topics:
            masters = filter(None, map(self.master, topic.configs))
            failures = [seen.failure(Question.QUEUES, broker, topic.name) for broker in masters]
            topic.failure = next(filter(None, failures), None)
            topic.looked_at_ms = now_ms
            if topic.failure is None:
                topic.edges = edges.get(topic.name, {})
                topic.series.add(now_ms, sum(edge.max_offset for edge in topic.edges.values()))

    def take_members(self, seen: ClusterSnapshot, groups: Iterable[GroupPicture], now_ms: int) -> None:
        """Take over the members of these groups; old ones stay where no broker answered."""
        for group in groups:
            failures = [seen.failure(Question.MEMBERS, broker, group.name) for broker in self.masters]
            group.failure = next(filter(None, failures), None)
            group.looked_at_ms = now_ms
            if group.failure is None or None in failures:
                group.connections = seen.members.get(group.name, {})

    def take_progress(self, seen: ClusterSnapshot, groups: Iterable[GroupPicture]) -> None:
        """Take over what these groups pop; the old stays where no broker answered."""
        for group in groups:
            found = seen.progress.get(group.name)
            if found is not None:
                group.popped = {queue: one for queue, one in found.items() if one.in_flight is not None}

    def take_failures(self, seen: ClusterSnapshot) -> None:
        """Note which tables brokers did not give; forget what this snapshot asked for again."""
        asked = {question.label for question in seen.asked_at}
        self.troubles = {
            what: why for what, why in self.troubles.items() if what.partition(" ")[0] not in asked
        }
        for question, broker, about, error in seen.failures():
            if question in seen.asked_at and not about:
                self.troubles[f"{question.label} {broker.broker_name}"] = str(error)

    def _known_brokers(self) -> set[str]:
        # A broker that is gone may come back: its queues and groups stay known.
        brokers = (*self.brokers, *(one.broker for one in self.gone))
        return {broker.broker_name for broker in brokers}

    def _group(self, name: str) -> GroupPicture:
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = GroupPicture(name, kind_of_group(name))
        return group

    def measure_lags(self, at_ms: int) -> None:
        """Find out how far behind each group is, from what is known of queues and groups."""
        for group in self.groups.values():
            group.lag = sum(lag for _, _, lag in self.lag_rows(group))
            group.lags.append((at_ms, group.lag))

    def lag_rows(self, group: GroupPicture) -> Iterable[tuple[MessageQueue, int, int]]:
        """Yield each queue that a group has read of, the offset it reads next, and how many are behind it."""
        for topic_name, offsets in group.offsets.items():
            topic = self.topics.get(topic_name)
            for queue, offset in offsets.items():
                edge = None if topic is None else topic.edges.get(queue)
                popped = group.popped.get(queue)
                if popped is not None:
                    # What is acknowledged behind the oldest in flight does not count.
                    yield queue, offset, popped.behind
                    continue
                yield queue, offset, 0 if edge is None else max(0, edge.max_offset - offset)


def kind_of_group(name: str) -> NameKind:
    """Return whether a group is somebody's, or a broker's own."""
    return NameKind.SYSTEM if is_system_group(name) else NameKind.NORMAL


def _renewed(old: Mapping[str, Config], new: Mapping[str, Config], kept_from: set[str]) -> dict[str, Config]:
    """Return configurations by broker: the new ones, and the old ones of brokers that did not answer."""
    return {broker: config for broker, config in old.items() if broker in kept_from} | dict(new)


def _renewed_offsets(
    old: Mapping[str, Mapping[MessageQueue, int]],
    new: Mapping[str, Mapping[MessageQueue, int]],
    kept_from: set[str],
) -> dict[str, dict[MessageQueue, int]]:
    """Return offsets by topic and queue: the new ones, and the old ones of brokers that did not answer."""
    found = {topic: dict(offsets) for topic, offsets in new.items()}
    for topic, offsets in old.items():
        for queue, offset in offsets.items():
            if queue.broker_name in kept_from:
                found.setdefault(topic, {})[queue] = offset
    return found
