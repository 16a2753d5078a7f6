"""The rows of `pyromq top`: brokers, topics and groups of one snapshot, with rates since the snapshot before.

Rates of topics and groups are the difference of the two snapshots. Without a snapshot before, and for
topics that no group reads, they are the brokers' own rates of the last minute.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pyromq.client.aio.asking import Asker
from pyromq.client.observation.counts import grown, per_second
from pyromq.client.observation.observation import Observation
from pyromq.client.observation.snapshot import BrokerSnapshot, ClusterSnapshot, Question
from pyromq.model import MessageQueue
from pyromq.system_names import is_users_topic
from pyromq.wire.bodies.offset_bodies import GroupProgress

#: Topics whose rates brokers are asked for, with one question each.
TOPICS_ASKED_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker process."""

    name: str
    broker_id: int
    address: str
    version: str = ""
    pyromq_version: str = ""
    in_rate: float = 0.0
    out_rate: float = 0.0
    disk_ratio: float | None = None
    today_in: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic, over all brokers."""

    name: str
    in_rate: float
    out_rate: float
    lag: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group in one topic, over all brokers."""

    group: str
    topic: str
    out_rate: float
    lag: int
    #: Age of the last message that the group has consumed; None if there is none, or the lag is 0.
    behind_ms: int | None


@dataclass(frozen=True, slots=True)
class TopSample:
    """The rows of one snapshot, and the offsets that the next rates are computed from."""

    brokers: list[BrokerRow]
    topics: list[TopicRow]
    groups: list[GroupRow]
    at_s: float = 0.0
    #: Topic → queue → end of the queue; (group, topic) → queue → offset of the group.
    ends: Mapping[str, Mapping[MessageQueue, int]] = field(default_factory=dict)
    reached: Mapping[tuple[str, str], Mapping[MessageQueue, int]] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        """The lag of all groups together."""
        return sum(row.lag for row in self.groups)


async def take_sample(asker: Asker, before: TopSample | None = None) -> TopSample:
    """Take a snapshot and compare it with the sample before; raise NoRoute when there is no broker."""
    observation = Observation(asker)
    await observation.find_brokers()
    await observation.ask_brokers()
    await observation.ask_lags()
    await observation.ask_topic_names()
    seen = observation.snapshot
    progress = _progress(seen)
    at_s = seen.asked_at[Question.LAGS].monotonic_s
    reached = {key: {queue: each.reached for queue, each in own.items()} for key, own in progress.items()}
    ends: dict[str, dict[MessageQueue, int]] = {}
    for (_, topic), own in progress.items():
        ends.setdefault(topic, {}).update({queue: each.broker_offset for queue, each in own.items()})

    def rate(then: Mapping[MessageQueue, int], now: Mapping[MessageQueue, int], told: float) -> float:
        """Return the rate since the sample before, or the brokers' own if that did not have the offsets."""
        count = grown(then, now)
        return told if before is None or count is None else per_second(count, at_s - before.at_s)

    ends_before, reached_before = ({}, {}) if before is None else (before.ends, before.reached)
    topics = [name for name in seen.topic_names if is_users_topic(name) and name not in seen.own_topics]
    untold = [name for name in topics if name not in ends or name not in ends_before]
    await observation.ask_put_rates(untold[:TOPICS_ASKED_MAX])
    told = _told_rates(seen)
    groups = [
        GroupRow(
            *key,
            rate(reached_before.get(key, {}), reached[key], told[key]),
            sum(each.behind for each in own.values()),
            _behind_ms(own.values()),
        )
        for key, own in progress.items()
    ]
    in_rates = {
        name: rate(ends_before.get(name, {}), ends.get(name, {}), seen.put_rates.get(name, 0.0))
        for name in topics
    }
    return TopSample(
        [_broker_row(broker) for broker in seen.brokers],
        _topic_rows(in_rates, groups),
        sorted(groups, key=lambda row: (-row.lag, -row.out_rate, row.group, row.topic)),
        at_s,
        ends,
        reached,
    )


def _progress(seen: ClusterSnapshot) -> dict[tuple[str, str], dict[MessageQueue, GroupProgress]]:
    """Return the progress of each group in each topic."""
    found: dict[tuple[str, str], dict[MessageQueue, GroupProgress]] = {}
    for group, lags in seen.lags.items():
        for lag in lags:
            for queue, progress in lag.offset_table.items():
                found.setdefault((group, queue.topic), {})[queue] = progress
    return found


def _told_rates(seen: ClusterSnapshot) -> defaultdict[tuple[str, str], float]:
    """Return the brokers' own rates of each group in each topic."""
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    for group, lags in seen.lags.items():
        for lag in lags:
            if lag.offset_table:
                found[group, next(iter(lag.offset_table)).topic] += lag.consume_tps
    return found


def _behind_ms(progress: Iterable[GroupProgress]) -> int | None:
    stored_ms = [each.last_timestamp for each in progress if each.behind > 0 and each.last_timestamp > 0]
    return time.time_ns() // 1_000_000 - min(stored_ms) if stored_ms else None


def _topic_rows(in_rates: Mapping[str, float], groups: Iterable[GroupRow]) -> list[TopicRow]:
    out: defaultdict[str, float] = defaultdict(float)
    lag: Counter[str] = Counter()
    for row in groups:
        out[row.topic] += row.out_rate
        lag[row.topic] += row.lag
    rows = [TopicRow(topic, rate, out[topic], lag[topic]) for topic, rate in in_rates.items()]
    return sorted(rows, key=lambda row: (-row.in_rate, -row.out_rate, -row.lag, row.name))


def _broker_row(broker: BrokerSnapshot) -> BrokerRow:
    row = BrokerRow(broker.broker_name, broker.broker_id, broker.address, failure=broker.failure)
    if broker.failure is not None:
        return row
    return replace(
        row,
        version=broker.figures.get("brokerVersionDesc", ""),
        pyromq_version=broker.figures.get("pyromqVersion", ""),
        in_rate=broker.newest_rate("putTps") or 0.0,
        out_rate=broker.newest_rate("getTransferedTps", "getTransferredTps") or 0.0,
        disk_ratio=broker.number("commitLogDiskRatio"),
        today_in=broker.today_in or 0,
    )
