"""What `pyromq top` shows: one look at a cluster, by what any RocketMQ's brokers answer.

A broker tells its own rates (runtime, 28), and how far all groups are (GET_BROKER_CONSUME_STATS, 317). Rates
of topics and groups are how much their offsets moved since the look before. Without one before, and for
topics that no group reads, they are the brokers' own counts of the last minute.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyromq.client.aio.admin import Admin
from pyromq.client.plans.ops_brokers import Said
from pyromq.client.plans.ops_places import Place
from pyromq.errors import PyroError
from pyromq.system_names import is_users_topic
from pyromq.wire.bodies.operations import GroupLag

TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
#: Topics whose rates brokers are asked for, one by one.
TOPICS_ASKED_MAX: Final = 200
LAGS_TIMEOUT_MS: Final = 20_000


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
    #: How long ago the last message was stored that it has consumed; None if it has none, or has them all.
    behind_ms: int | None


@dataclass(frozen=True, slots=True)
class Sample:
    """One look. `ends` and `reached` are offsets, for the rates of the next look."""

    at_s: float
    brokers: list[BrokerRow]
    topics: list[TopicRow]
    groups: list[GroupRow]
    ends: Mapping[str, int] = field(default_factory=dict)
    reached: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        """How many messages all groups have yet to read."""
        return sum(row.lag for row in self.groups)


async def look(admin: Admin, before: Sample | None = None) -> Sample:
    """Look at the cluster; raises NoRoute when there is no broker."""
    places = await admin.brokers(with_slaves=True)
    statuses = await asyncio.gather(*(admin.broker_status(address=place.address) for place in places))
    # Who does not say how it is, is not waited for again, and again for each topic.
    masters = [said.place for (said,) in statuses if said.place.broker_id == 0 and said.failure is None]
    lags = await asyncio.gather(*(_lags(admin, place) for place in masters))
    counted = _Counted(before)
    for of_broker in lags:
        counted.add(of_broker)
    # A broker has topics with its own name and its cluster's.
    own = {name for place in places for name in (place.cluster, place.broker_name)}
    names = [name for name in await admin.topics() if is_users_topic(name) and name not in own]
    await counted.ask(admin, names, masters)
    brokers = [_broker_row(place, said) for place, (said,) in zip(places, statuses, strict=True)]
    return counted.sample(brokers)


async def _lags(admin: Admin, place: Place) -> dict[str, list[GroupLag]]:
    try:
        return await admin.broker_lags(place.address, timeout_ms=LAGS_TIMEOUT_MS)
    except PyroError:
        # Its row says that it does not answer.
        return {}


class _Counted:
    """Sums over brokers, and rates by what was before."""

    def __init__(self, before: Sample | None) -> None:
        self._before = before
        self._at_s = time.monotonic()
        self._now_ms = time.time_ns() // 1_000_000
        self._ends: dict[tuple[str, str, int], int] = {}
        self._reached: Counter[tuple[str, str]] = Counter()
        self._lags: Counter[tuple[str, str]] = Counter()
        self._told_rates: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._oldest_ms: dict[tuple[str, str], int] = {}
        self._in_rates: dict[str, float] = {}

    def add(self, of_broker: Mapping[str, Sequence[GroupLag]]) -> None:
        """Take in how far the groups of a broker are."""
        for group, lags in of_broker.items():
            for lag in lags:
                for queue, progress in lag.offset_table.items():
                    key = (group, queue.topic)
                    self._ends[queue.topic, queue.broker_name, queue.queue_id] = progress.broker_offset
                    self._reached[key] += progress.consumer_offset
                    behind = progress.broker_offset - progress.consumer_offset
                    self._lags[key] += behind
                    if behind > 0 and progress.last_timestamp > 0:
                        oldest_ms = self._oldest_ms.get(key, progress.last_timestamp)
                        self._oldest_ms[key] = min(oldest_ms, progress.last_timestamp)
                if lag.offset_table:
                    topic = next(iter(lag.offset_table)).topic
                    self._told_rates[group, topic] += lag.consume_tps

    async def ask(self, admin: Admin, topics: Sequence[str], masters: Sequence[Place]) -> None:
        """Ask brokers for the rates of topics that no look before tells."""
        known = (
            set() if self._before is None else {topic for topic, _, _ in self._ends} & set(self._before.ends)
        )
        asked = [topic for topic in topics if topic not in known][:TOPICS_ASKED_MAX]
        rates = await asyncio.gather(*(self._rate(admin, topic, masters) for topic in asked))
        self._in_rates = {**dict.fromkeys(topics, 0.0), **dict(zip(asked, rates, strict=True))}

    async def _rate(self, admin: Admin, topic: str, masters: Sequence[Place]) -> float:
        total = 0.0
        for place in masters:
            try:
                rates = await admin.broker_rates(place.address, TOPIC_PUT_NUMS, topic)
            except PyroError:
                continue
            total += 0.0 if rates is None else rates.stats_minute.tps
        return total

    def sample(self, brokers: list[BrokerRow]) -> Sample:
        """Return what was seen."""
        ends: Counter[str] = Counter()
        for (topic, _, _), end in self._ends.items():
            ends[topic] += end
        before = {} if self._before is None else self._before.reached
        groups = [
            GroupRow(
                *key,
                self._rate_of(reached, before.get(key), told=self._told_rates[key]),
                self._lags[key],
                self._now_ms - self._oldest_ms[key] if key in self._oldest_ms else None,
            )
            for key, reached in self._reached.items()
        ]
        groups.sort(key=lambda row: (-row.lag, -row.out_rate, row.group, row.topic))
        return Sample(
            at_s=self._at_s,
            brokers=brokers,
            topics=self._topics(ends, groups),
            groups=groups,
            ends=dict(ends),
            reached=dict(self._reached),
        )

    def _topics(self, ends: Mapping[str, int], groups: Sequence[GroupRow]) -> list[TopicRow]:
        before = {} if self._before is None else self._before.ends
        out: defaultdict[str, float] = defaultdict(float)
        lag: Counter[str] = Counter()
        for row in groups:
            out[row.topic] += row.out_rate
            lag[row.topic] += row.lag
        rows = [
            TopicRow(
                topic, self._rate_of(ends.get(topic), before.get(topic), told=told), out[topic], lag[topic]
            )
            for topic, told in self._in_rates.items()
        ]
        return sorted(rows, key=lambda row: (-row.in_rate, -row.out_rate, -row.lag, row.name))

    def _rate_of(self, now: int | None, then: int | None, *, told: float) -> float:
        """Return how much an offset moved in a second, or what brokers told where that is not known."""
        if self._before is None or now is None or then is None:
            return told
        return max(0, now - then) / max(self._at_s - self._before.at_s, 1e-3)


def _broker_row(place: Place, said: Said) -> BrokerRow:
    values = said.values
    if said.failure is not None:
        return BrokerRow(place.broker_name, place.broker_id, place.address, failure=said.failure)
    ratio = _number(values.get("commitLogDiskRatio"))
    today = _number(values.get("msgPutTotalTodayNow")) or 0
    return BrokerRow(
        place.broker_name,
        place.broker_id,
        place.address,
        version=values.get("brokerVersionDesc", ""),
        pyromq_version=values.get("pyromqVersion", ""),
        in_rate=_newest(values.get("putTps")),
        out_rate=_newest(values.get("getTransferedTps") or values.get("getTransferredTps")),
        disk_ratio=ratio,
        today_in=int(today - (_number(values.get("msgPutTotalTodayMorning")) or 0)),
    )


def _newest(text: str | None) -> float:
    """Return the first of RocketMQ's three rates: that of the last ten seconds."""
    return _number((text or "").split(" ")[0]) or 0.0


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
