"""The metrics of a broker's traffic, groups, requests and topics.

Names and labels are RocketMQ 5.x's where it has them, else `pyromq_…`. docs/reference/metrics.md describes
each metric, and a test compares that page with what a broker serves. `net/metrics.py` reads and serves them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pyromq.broker.delivery.arrivals import Arrivals
from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.groups.clients import ClientChannel
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.groups.offsets import SEPARATOR
from pyromq.broker.metrics.stats import (
    GROUP_GET_NUMS,
    GROUP_GET_SIZE,
    TOPIC_PUT_NUMS,
    TOPIC_PUT_SIZE,
    BrokerStats,
)
from pyromq.broker.requests.busy import Busy
from pyromq.broker.topics.topic_names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import Language
from pyromq.config.settings import BrokerSettings
from pyromq.net.latency import RequestTimes
from pyromq.net.metrics import Figure, FigureKind, Histogram, Values
from pyromq.net.server import Server
from pyromq.system_names import is_system_topic

#: RocketMQ's bounds of message sizes, and two below them.
SIZE_BOUNDS = (256, 1024, 4096, 65_536, 524_288, 1 << 20, 2 << 20, 4 << 20)
SECONDS_BOUNDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)


@dataclass(frozen=True, slots=True)
class Observed:
    """The histograms of one broker; they exist only where metrics are served."""

    requests: RequestTimes = field(default_factory=RequestTimes)
    syncs: Histogram = field(
        default_factory=lambda: Histogram(
            "pyromq_sync_seconds", "Seconds that a sync of the commit log took.", (), SECONDS_BOUNDS
        )
    )
    safe_waits: Histogram = field(
        default_factory=lambda: Histogram(
            "pyromq_safe_wait_seconds",
            "Seconds until sends were as safe as the settings want; one observation for all of a turn.",
            (),
            SECONDS_BOUNDS,
        )
    )
    sizes: Histogram = field(
        default_factory=lambda: Histogram(
            "rocketmq_message_size",
            "Bytes of a stored message; those of a queue's newest stand for all since the last look.",
            (),
            SIZE_BOUNDS,
        )
    )

    def watch(self, durability: Durability, stats: BrokerStats) -> None:
        """Be told from now on."""
        durability.on_synced = self.syncs.observe
        durability.on_safe = self.safe_waits.observe
        stats.on_sizes = self._sized

    def _sized(self, sizes: list[int], count: int) -> None:
        each, rest = divmod(count, len(sizes))
        for index, size in enumerate(sizes):
            self.sizes.observe(size, count=each + (index < rest))

    @property
    def histograms(self) -> tuple[Histogram, ...]:
        """All of them."""
        return self.requests.histogram, self.syncs, self.safe_waits, self.sizes


def traffic_figures(stats: BrokerStats) -> list[Figure]:
    """Return the metrics of messages that were stored and given out."""
    of_topic, of_group = ("topic", "is_system"), ("topic", "consumer_group", "is_retry", "is_system")

    def by_topic(name: str) -> Callable[[], Values]:
        return lambda: {(topic, _is_system(topic)): count for topic, count in stats.counts(name).items()}

    def by_group(name: str) -> Callable[[], Values]:
        return lambda: {_of_group(key): count for key, count in stats.counts(name).items()}

    return [
        _counter("rocketmq_messages_in_total", "Messages stored.", of_topic, by_topic(TOPIC_PUT_NUMS)),
        _counter(
            "rocketmq_throughput_in_total",
            "Bytes of the messages stored; estimated by each queue's newest.",
            of_topic,
            by_topic(TOPIC_PUT_SIZE),
        ),
        _counter(
            "rocketmq_messages_out_total", "Messages given to consumers.", of_group, by_group(GROUP_GET_NUMS)
        ),
        _counter(
            "rocketmq_throughput_out_total",
            "Bytes of the messages given to consumers.",
            of_group,
            by_group(GROUP_GET_SIZE),
        ),
        _counter(
            "rocketmq_send_to_dlq_messages_total",
            "Messages that a group gave up.",
            ("consumer_group",),
            lambda: {
                (topic.removeprefix(DEAD_LETTER_PREFIX),): count
                for topic, count in stats.counts(TOPIC_PUT_NUMS).items()
                if topic.startswith(DEAD_LETTER_PREFIX)
            },
        ),
        _counter(
            "pyromq_pulls_total",
            "Pulls, by whether they found messages.",
            ("result",),
            lambda: {("found",): stats.totals.found, ("missed",): stats.totals.missed},
        ),
    ]


def group_figures(groups: Groups) -> list[Figure]:
    """Return the metrics of consumer and producer groups."""
    consumers, producers, conflicts = groups.consumers, groups.producers, groups.conflicts
    return [
        _single("rocketmq_consumer_group_number", "Consumer groups.", lambda: len(groups.table.configs)),
        Figure(
            "rocketmq_consumer_connections",
            "Members of consumer groups.",
            ("consumer_group", "language", "version"),
            lambda: _members({name: group.members.values() for name, group in consumers.groups.items()}),
        ),
        Figure(
            "rocketmq_producer_connections",
            "Members of producer groups.",
            ("producer_group", "language", "version"),
            lambda: _members({name: group.values() for name, group in producers.groups.items()}),
        ),
        Figure(
            "pyromq_subscription_conflict_members",
            "Members of a consumer group that subscribe differently from most of it.",
            ("consumer_group",),
            lambda: {(name,): conflict.member_count for name, conflict in conflicts.lasting.items()},
        ),
    ]


def request_figures(server: Server, busy: Busy, arrivals: Arrivals) -> list[Figure]:
    """Return the metrics of connections, and of requests in flight, held and refused."""
    return [
        _single("pyromq_connections", "Open connections.", lambda: len(server.links)),
        _single(
            "pyromq_requests_under_way",
            "Requests that wait for their answers, held pulls among them.",
            lambda: sum(link.under_way_count for link in server.links),
        ),
        Figure(
            "rocketmq_processor_watermark",
            "Requests that wait for disk, slaves or their answers, held pulls not among them.",
            ("processor",),
            lambda: {(queue.name,): queue.size for queue in busy.queues},
        ),
        _counter(
            "pyromq_busy_refusals_total",
            "Requests refused with SYSTEM_BUSY because the broker was busy, by why it was.",
            ("processor", "reason"),
            lambda: {
                (queue.name, str(reason)): count
                for queue in busy.queues
                for reason, count in queue.refused.items()
            },
        ),
        _single("pyromq_held_pulls", "Pulls that wait for messages.", lambda: arrivals.held_count),
    ]


def topic_figures(settings: BrokerSettings, topics: TopicTable) -> list[Figure]:
    """Return the metrics of the table of topics, and of the broker's own permission."""
    return [
        _single(
            "rocketmq_broker_permission",
            "What clients may do here: 4 read, 2 write, 6 both.",
            lambda: settings.broker_permission,
        ),
        _single("rocketmq_topic_number", "Topics, system topics among them.", lambda: len(topics.configs)),
    ]


def _single(name: str, about: str, read: Callable[[], float]) -> Figure:
    return Figure(name, about, (), lambda: {(): read()})


def _counter(name: str, about: str, labels: tuple[str, ...], read: Callable[[], Values]) -> Figure:
    return Figure(name, about, labels, read, FigureKind.COUNTER)


def _of_group(key: str) -> tuple[str, ...]:
    topic, _, group = key.partition(SEPARATOR)
    return topic, group, str(topic.startswith(RETRY_PREFIX)).lower(), _is_system(topic)


def _is_system(topic: str) -> str:
    return str(is_system_topic(topic)).lower()


def _members(groups: Mapping[str, Iterable[ClientChannel]]) -> Values:
    counted: Counter[tuple[str, ...]] = Counter()
    for name, members in groups.items():
        counted.update((name, _language(member), str(member.version)) for member in members)
    return counted


def _language(client: ClientChannel) -> str:
    try:
        return Language(client.language).name.lower()
    except ValueError:
        return str(client.language)
