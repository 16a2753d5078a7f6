"""What is known of a cluster at a moment, and how its numbers moved before.

Rates come from counts that brokers give: the ends of queues, and how far groups are. A `Series` turns them
into messages a second over some seconds, for groups say only every five how far they are.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.namespaces import DEAD_LETTER_TOPIC_PREFIX
from pyromq.model import MessageQueue
from pyromq.system_names import is_system_group, is_system_topic
from pyromq.wire.bodies.connections import ConsumerConnections
from pyromq.wire.bodies.groups import SubscriptionGroupConfig
from pyromq.wire.bodies.offsets import TopicOffset
from pyromq.wire.bodies.operations import ProducerClient
from pyromq.wire.bodies.replicas import ReplicaList
from pyromq.wire.bodies.topics import TopicConfig

#: Milliseconds over which a rate is taken.
WINDOW_MS: Final = 12_000
#: Points of a chart that are kept: half an hour at a round every two seconds is 900.
POINTS_MAX: Final = 900
#: The same for each single topic and group.
OWN_POINTS_MAX: Final = 180


class Kind(StrEnum):
    """Whose a topic or a group is."""

    NORMAL = "normal"
    RETRY = "retry"
    DEAD = "dead"
    SYSTEM = "system"


class Series:
    """A count that grows, and how fast it grew at each look."""

    __slots__ = ("_recent", "points")

    def __init__(self, points_max: int = OWN_POINTS_MAX) -> None:
        self._recent: deque[tuple[int, int]] = deque()
        #: When, and how many a second.
        self.points: deque[tuple[int, float]] = deque(maxlen=points_max)

    @property
    def rate(self) -> float | None:
        """How many a second now; None while it was looked at once only."""
        return self.points[-1][1] if self.points else None

    def add(self, at_ms: int, count: int) -> None:
        """Take in what the count is now. One that fell, as of a topic made anew, begins again."""
        recent = self._recent
        if recent and count < recent[-1][1]:
            recent.clear()
        recent.append((at_ms, count))
        while len(recent) > 2 and recent[1][0] <= at_ms - WINDOW_MS:
            recent.popleft()
        since_ms = at_ms - recent[0][0]
        if since_ms > 0:
            self.points.append((at_ms, (count - recent[0][1]) * 1_000 / since_ms))


@dataclass(slots=True, kw_only=True)
class Broker:
    """One broker: a master (id 0) or a slave, and what it says of itself or why it does not."""

    cluster: str
    name: str
    broker_id: int
    address: str
    figures: dict[str, str] = field(default_factory=dict)
    failure: str | None = None
    #: What it refused with, if it is there and says no: access control, mostly; the step to take.
    refusal_step: str | None = None
    #: When no name server knew it any more; None while one does.
    gone_at_ms: int | None = None

    @property
    def answers(self) -> bool:
        """Whether it is there: it told its figures when it was asked last, or refused to.

        RocketMQ 4.9 fails to say its figures in its first seconds, and answers all else.
        """
        return self.failure is None or self.refusal_step is not None

    @property
    def is_master(self) -> bool:
        """Whether it takes messages."""
        return self.broker_id == 0

    def first_rate(self, name: str) -> float | None:
        """Return the rate of the last ten seconds, of the three that a broker gives."""
        text = self.figures.get(name, "").split(" ")[0]
        try:
            return float(text) if text else None
        except ValueError:
            return None

    def number(self, name: str) -> float | None:
        """Return a figure as a number, or None when it is none or is not there."""
        try:
            return float(self.figures[name])
        except (KeyError, ValueError):
            return None


@dataclass(slots=True)
class Topic:
    """A topic: its settings on each broker, its queues' edges, its rate."""

    name: str
    kind: Kind
    configs: dict[str, TopicConfig] = field(default_factory=dict)
    edges: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    looked_at_ms: int = 0
    series: Series = field(default_factory=Series)
    failure: str | None = None

    @property
    def held(self) -> int:
        """How many messages are there."""
        return sum(max(0, edge.max_offset - edge.min_offset) for edge in self.edges.values())

    @property
    def last_stored_ms(self) -> int:
        """When the last message was stored; 0 when none is there."""
        return max((edge.last_update_timestamp for edge in self.edges.values()), default=0)

    @property
    def is_moving(self) -> bool:
        """Whether messages came in lately."""
        return bool(self.series.rate)


@dataclass(slots=True)
class Group:
    """A consumer group: its settings on each broker, how far it is, who is in it."""

    name: str
    kind: Kind
    configs: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    #: Topic → queue → the offset that it reads next.
    offsets: dict[str, dict[MessageQueue, int]] = field(default_factory=dict)
    #: By broker; None while nobody has looked.
    connections: dict[str, ConsumerConnections] | None = None
    looked_at_ms: int = 0
    failure: str | None = None
    series: Series = field(default_factory=Series)
    lag: int = 0
    lags: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=OWN_POINTS_MAX))

    @property
    def member_ids(self) -> set[str] | None:
        """The ids of those connected; None while that is not known."""
        if self.connections is None:
            return None
        return {one.client_id for each in self.connections.values() for one in each.connections}


@dataclass(slots=True)
class Health:
    """What the doctor said, and what it does now."""

    #: `Report.as_json` of the last examination that came to an end; None before the first.
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
    brokers: list[Broker] = field(default_factory=list)
    #: Brokers that were there while this dashboard ran, and are not any more.
    gone: list[Broker] = field(default_factory=list)
    topics: dict[str, Topic] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    #: Producer group → members, of all brokers; None while no broker has said.
    producers: dict[str, dict[str, ProducerClient]] | None = None
    replicas: dict[str, ReplicaList] = field(default_factory=dict)
    health: Health = field(default_factory=Health)
    #: What could not be found out, and why.
    troubles: dict[str, str] = field(default_factory=dict)
    incoming: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=POINTS_MAX))
    outgoing: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=POINTS_MAX))

    @property
    def masters(self) -> list[Broker]:
        """The brokers that take messages and orders."""
        return [broker for broker in self.brokers if broker.is_master]

    def master(self, name: str) -> Broker | None:
        """Return the master of a name, if one is known."""
        return next((broker for broker in self.masters if broker.name == name), None)

    def kind_of_topic(self, name: str) -> Kind:
        """Return whose a topic is; each broker and each cluster has one of its own name."""
        if name.startswith(RETRY_TOPIC_PREFIX):
            return Kind.RETRY
        if name.startswith(DEAD_LETTER_TOPIC_PREFIX):
            return Kind.DEAD
        own = {name for broker in self.brokers for name in (broker.name, broker.cluster)}
        return Kind.SYSTEM if name in own or is_system_topic(name) else Kind.NORMAL

    def measure_lags(self, at_ms: int) -> None:
        """Find out how far behind each group is, from what is known of queues and groups."""
        for group in self.groups.values():
            group.lag = sum(lag for _, _, lag in self.lag_rows(group))
            group.lags.append((at_ms, group.lag))

    def lag_rows(self, group: Group) -> Iterable[tuple[MessageQueue, int, int]]:
        """Yield each queue that a group has read of, the offset it reads next, and how many are behind it."""
        for topic_name, offsets in group.offsets.items():
            topic = self.topics.get(topic_name)
            for queue, offset in offsets.items():
                edge = None if topic is None else topic.edges.get(queue)
                yield queue, offset, 0 if edge is None else max(0, edge.max_offset - offset)


def kind_of_group(name: str) -> Kind:
    """Return whether a group is somebody's, or a broker's own."""
    return Kind.SYSTEM if is_system_group(name) else Kind.NORMAL
