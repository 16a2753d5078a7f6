"""A snapshot of a cluster: what its name servers and brokers answered to one round of questions.

An `Observation` fills it, with only those parts that its reader asked for; after that nobody changes it.
Motion is the difference of two snapshots (`counts.py`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from pyromq.client.observation.broker_clock import ClockReading, read_clock
from pyromq.client.plans.admin.targets import BrokerPlace
from pyromq.codes import RequestCode
from pyromq.errors import ConnectFailed, NetworkError, PyroError, Refused, TlsFailed
from pyromq.model import MessageQueue
from pyromq.wire.bodies.connection_bodies import ConsumerConnections
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.offset_bodies import GroupProgress, TopicOffset
from pyromq.wire.bodies.operation_bodies import GroupLag, ProducerClient
from pyromq.wire.bodies.replica_bodies import ReplicaList
from pyromq.wire.bodies.route_bodies import ClusterTable
from pyromq.wire.bodies.topic_bodies import TopicConfig


class Moment(NamedTuple):
    """A time on this machine: milliseconds since 1970, and seconds of the monotonic clock."""

    ms: int
    monotonic_s: float


class Question(Enum):
    """A question to a broker: its name, and its request code."""

    FIGURES = "figures", RequestCode.GET_BROKER_RUNTIME_INFO
    SETTINGS = "settings", RequestCode.GET_BROKER_CONFIG
    REPLICAS = "replicas", RequestCode.LIST_REPLICAS
    TOPICS = "topics", RequestCode.GET_ALL_TOPIC_CONFIG
    GROUPS = "groups", RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    PRODUCERS = "producers", RequestCode.GET_ALL_PRODUCER_INFO
    #: The offsets of all groups, of those too that the broker does not have.
    OFFSETS = "progress", RequestCode.GET_ALL_CONSUMER_OFFSET
    #: Offsets and ends of all groups that the broker has.
    LAGS = "lags", RequestCode.GET_BROKER_CONSUME_STATS
    #: Offsets and ends of one group.
    PROGRESS = "group progress", RequestCode.GET_CONSUME_STATS
    #: The groups that read one topic.
    READERS = "readers", RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    #: The connections of one group.
    MEMBERS = "members", RequestCode.GET_CONSUMER_CONNECTION_LIST
    #: Begin and end of one topic's queues.
    QUEUES = "queues", RequestCode.GET_TOPIC_STATS_INFO
    #: Messages a second into one topic.
    PUT_RATE = "rates", RequestCode.VIEW_BROKER_STATS_DATA

    def __init__(self, label: str, code: RequestCode) -> None:
        self.label = label
        self.code = code


@dataclass(frozen=True, slots=True)
class NameServerSnapshot:
    """A name server: the brokers that it knows, or why it did not answer."""

    address: str
    table: ClusterTable | None = None
    #: The permission that it gives clients on each broker, by the broker's name.
    perms: Mapping[str, int] = field(default_factory=dict)
    error: PyroError | None = None

    @property
    def lacks_tls(self) -> bool:
        """Whether it is there, and TLS with it failed."""
        return isinstance(self.error, TlsFailed)

    def addresses(self, broker_name: str) -> dict[int, str]:
        """Return the addresses of a broker's master and slaves, by broker id."""
        broker = None if self.table is None else self.table.broker_addr_table.get(broker_name)
        return {} if broker is None else dict(broker.broker_addrs)


@dataclass(frozen=True, slots=True)
class BrokerSnapshot(BrokerPlace):
    """A broker process, master or slave: its runtime information, or why it did not answer."""

    #: The runtime information (28).
    figures: Mapping[str, str] = field(default_factory=dict)
    #: The settings (25); empty if nobody asked, or the broker refused.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: This machine's time just before the question for `figures` and just after the answer.
    asked_at_ms: int = 0
    answered_at_ms: int = 0
    error: PyroError | None = None

    @property
    def name(self) -> str:
        """The broker's name, with the id if it is a slave."""
        return self.broker_name if self.is_master else f"{self.broker_name}:{self.broker_id}"

    @property
    def failure(self) -> str | None:
        """The reason why the broker did not give its figures, in words; None if it did."""
        return None if self.error is None else str(self.error)

    @property
    def is_there(self) -> bool:
        """Whether it answered, if only to refuse: RocketMQ 4.9 refuses its figures in its first seconds."""
        return self.error is None or isinstance(self.error, Refused)

    @property
    def is_unreachable(self) -> bool:
        """Whether nobody listens at its address, or no answer came in time."""
        return isinstance(self.error, NetworkError)

    @property
    def is_connected(self) -> bool:
        """Whether it accepted a connection and then did not answer."""
        return self.is_unreachable and not isinstance(self.error, ConnectFailed)

    @property
    def lacks_tls(self) -> bool:
        """Whether it is there, and TLS with it failed."""
        return isinstance(self.error, TlsFailed)

    @property
    def clock(self) -> ClockReading | None:
        """Its clock at the time of its answer; None if it does not say."""
        return read_clock(self.figures, self.asked_at_ms, self.answered_at_ms)

    @property
    def makes_groups(self) -> bool | None:
        """Whether the first use of a group creates it; None if the settings are not known."""
        said = self.settings.get("autoCreateSubscriptionGroup")
        return None if said is None else said == "true"

    def number(self, key: str) -> float | None:
        """Return one of its figures; None if it is missing or no number."""
        return number(self.figures, key)

    def newest_rate(self, *keys: str) -> float | None:
        """Return a rate of the last ten seconds, the first of a broker's three; each key is a spelling."""
        text = next((text for key in keys if (text := self.figures.get(key))), "")
        try:
            return float(text.split(" ")[0])
        except ValueError:
            return None

    @property
    def today_in(self) -> int | None:
        """The messages that were stored since midnight."""
        return _difference(self.number("msgPutTotalTodayNow"), self.number("msgPutTotalTodayMorning"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """A cluster at one time. A part that no question asked for is empty."""

    name_servers: list[NameServerSnapshot] = field(default_factory=list)
    brokers: list[BrokerSnapshot] = field(default_factory=list)
    #: The topics that a name server lists, in the client's namespace.
    topic_names: list[str] = field(default_factory=list)
    #: Topic, or group → name of the master → its configuration there.
    topics: dict[str, dict[str, TopicConfig]] = field(default_factory=dict)
    groups: dict[str, dict[str, SubscriptionGroupConfig]] = field(default_factory=dict)
    #: Producer group → client id → producer.
    producers: dict[str, dict[str, ProducerClient]] = field(default_factory=dict)
    #: Broker name → its replicas, where etcd elects the master.
    replicas: dict[str, ReplicaList] = field(default_factory=dict)
    #: Names of brokers of which every process answered that it has no replicas, or refused to list them.
    fixed_roles: set[str] = field(default_factory=set)
    #: Group → topic → queue → the offset that the group reads next.
    offsets: dict[str, dict[str, dict[MessageQueue, int]]] = field(default_factory=dict)
    #: Group → offsets and ends in each of its topics.
    lags: dict[str, list[GroupLag]] = field(default_factory=dict)
    #: Group → queue → how far it is; of groups that were asked about one by one.
    progress: dict[str, dict[MessageQueue, GroupProgress]] = field(default_factory=dict)
    #: Group → names of the masters where it reads a topic.
    readers: dict[str, set[str]] = field(default_factory=dict)
    #: Group → name of the master → the members that are connected to it.
    members: dict[str, dict[str, ConsumerConnections]] = field(default_factory=dict)
    #: Begin and end of each queue.
    queues: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    #: Topic → messages a second in the last minute, as brokers count them.
    put_rates: dict[str, float] = field(default_factory=dict)
    #: Question → when it was asked.
    asked_at: dict[Question, Moment] = field(default_factory=dict)
    #: Question → names of the masters that answered.
    answered: dict[Question, set[str]] = field(default_factory=dict)
    #: (question, address, topic or group) → why there is no answer.
    unanswered: dict[tuple[Question, str, str], PyroError] = field(default_factory=dict)
    #: Address of a broker that was skipped after it did not answer → the reason.
    silent: dict[str, PyroError] = field(default_factory=dict)
    #: Address → how many questions were skipped.
    skipped: dict[str, int] = field(default_factory=dict)

    @property
    def masters(self) -> list[BrokerSnapshot]:
        """The masters, with those that do not answer."""
        return [broker for broker in self.brokers if broker.is_master]

    def master(self, broker_name: str) -> BrokerSnapshot | None:
        """Return the master of a name, if a name server knows one."""
        return next((broker for broker in self.masters if broker.broker_name == broker_name), None)

    def at(self, address: str) -> BrokerSnapshot | None:
        """Return the broker at an address."""
        return next((broker for broker in self.brokers if broker.address == address), None)

    @property
    def own_topics(self) -> set[str]:
        """The topics that each broker and each cluster has under its own name."""
        return {name for broker in self.brokers for name in (broker.broker_name, broker.cluster)}

    def failures(self) -> Iterator[tuple[Question, BrokerSnapshot, str, PyroError]]:
        """Yield each question without an answer, its broker, its topic or group, and the error."""
        by_address = {broker.address: broker for broker in self.brokers}
        for (question, address, about), error in self.unanswered.items():
            yield question, by_address[address], about, error

    def failure(self, question: Question, broker: BrokerSnapshot, about: str = "") -> str | None:
        """Return why a broker did not answer a question, in words; None if it did."""
        error = self.unanswered.get((question, broker.address, about))
        if error is not None:
            return f"{broker.broker_name}: {error}"
        silence = self.silent.get(broker.address)
        return None if silence is None else f"{broker.broker_name} does not answer: {silence}"


def number(figures: Mapping[str, str], key: str) -> float | None:
    """Return a figure; None if it is missing or no number."""
    try:
        return float(figures.get(key, ""))
    except ValueError:
        return None


def _difference(one: float | None, other: float | None) -> int | None:
    return None if one is None or other is None else max(0, int(one - other))
