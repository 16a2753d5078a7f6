"""Renews the picture of a cluster in rounds.

Each round asks for the brokers and their figures, and how far all groups are (43, one question a master).
Topics' edges (202) and groups' members (203) are one question each, so a round asks for a part of them:
first those that somebody looks at, then those that move, then those that were not looked at for longest.
Tables of topics and groups (21, 201) are asked for every few rounds.
"""

import asyncio
import logging
from collections.abc import Callable, Container, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from pyromq.client.aio.asking import Asker
from pyromq.client.plans import replicas
from pyromq.client.plans.route import cluster
from pyromq.clock import Clock, SystemClock
from pyromq.codes import RequestCode, ResponseCode
from pyromq.dashboard.advice import next_step
from pyromq.dashboard.picture import Broker, Group, Kind, Picture, Topic, kind_of_group
from pyromq.errors import PyroError, Refused
from pyromq.model import MessageQueue
from pyromq.wire.bodies.connections import ConsumerConnections, decode_consumer_connections
from pyromq.wire.bodies.groups import decode_group_table
from pyromq.wire.bodies.offsets import TopicOffset, decode_group_offsets, decode_topic_stats
from pyromq.wire.bodies.operations import ProducerClient, decode_producers
from pyromq.wire.bodies.registration import decode_key_values
from pyromq.wire.bodies.topics import decode_topic_table
from pyromq.wire.headers.admin import GetConsumerConnectionList, GetTopicStats

log = logging.getLogger(__name__)

Looked = TypeVar("Looked", Topic, Group)

#: Seconds between rounds while somebody looks, and while nobody does.
ROUND_S: Final = 2.0
IDLE_ROUND_S: Final = 10.0
#: Seconds without a request after which nobody looks.
IDLE_AFTER_S: Final = 60.0
#: Seconds that a topic or a group counts as looked at.
WANTED_S: Final = 15.0
#: Seconds that a change waits for its first look.
AGAIN_S_MAX: Final = 5.0
#: Rounds between looks at the tables of topics and groups, and at who is there besides.
TABLE_ROUNDS: Final = 5
#: Topics and groups of a round.
TOPICS_A_ROUND: Final = 120
GROUPS_A_ROUND: Final = 40
#: Milliseconds that a broker which is gone is shown.
GONE_MS: Final = 60 * 60_000
#: Of a round's topics so many may be taken by those that move.
_MOVING_SHARE: Final = 0.75


class Sampler:
    """Keeps a picture up to date until it is closed."""

    def __init__(self, asker: Asker, *, clock: Clock | None = None, round_s: float = ROUND_S) -> None:
        self.picture = Picture()
        self._asker = asker
        self._clock = clock or SystemClock()
        self._round_s = round_s
        self._wanted_topics: dict[str, float] = {}
        self._wanted_groups: dict[str, float] = {}
        self._last_seen = self._clock.monotonic()
        self._are_tables_due = True
        self._is_looking = False
        #: Groups of brokers without failover, and which processes said so.
        self._fixed_roles: dict[str, tuple[tuple[str, str | None], ...]] = {}
        self._hurry = asyncio.Event()
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin the rounds."""
        self._task = asyncio.create_task(self._run(), name="pyromq-dashboard-sampler")

    async def close(self) -> None:
        """End the rounds."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def want(self, *, topics: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        """Look at these first for a while: somebody does."""
        now = self._clock.monotonic()
        self._last_seen = now
        self._wanted_topics.update(dict.fromkeys(topics, now + WANTED_S))
        self._wanted_groups.update(dict.fromkeys(groups, now + WANTED_S))

    async def look_again(self) -> None:
        """Look at everything soon, and return when that is done: something was changed."""
        # A round that is under way may have asked before the change.
        count = self.picture.round_count + (2 if self._is_looking else 1)
        self._are_tables_due = True
        self._hurry.set()
        await self.wait_for_round(count, timeout_s=AGAIN_S_MAX)

    async def wait_for_round(self, count: int, timeout_s: float) -> bool:
        """Return when so many rounds are over, or False when that takes too long."""
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self.picture.round_count >= count)
        except TimeoutError:
            return False
        return True

    async def _run(self) -> None:
        while True:
            self._is_looking = True
            try:
                await self._round()
            except PyroError as error:
                self.picture.troubles["cluster"] = str(error)
            except Exception:
                # One round that fails must not be the last.
                log.exception("a round of looks at the cluster failed")
                self.picture.troubles["cluster"] = "the dashboard failed to read an answer; its log says more"
            self._is_looking = False
            self.picture.round_count += 1
            async with self._changed:
                self._changed.notify_all()
            await self._pause()

    async def _pause(self) -> None:
        is_idle = self._clock.monotonic() - self._last_seen > IDLE_AFTER_S
        try:
            async with asyncio.timeout(IDLE_ROUND_S if is_idle else self._round_s):
                await self._hurry.wait()
        except TimeoutError:
            return
        if not self._are_tables_due:
            self._hurry.clear()

    async def _round(self) -> None:
        picture = self.picture
        await self._look_at_brokers()
        if self._are_tables_due or picture.round_count % TABLE_ROUNDS == 0:
            self._are_tables_due = False
            self._hurry.clear()
            await self._look_at_tables()
        await self._together(self._look_at_progress(broker) for broker in picture.masters if broker.answers)
        await self._together(self._look_at_topic(topic) for topic in self._topics_of_round())
        await self._together(self._look_at_group(group) for group in self._groups_of_round())
        now_ms = self._clock.now_ms()
        self._count_progress(now_ms)
        picture.measure_lags(now_ms)
        picture.incoming.append((now_ms, sum(topic.series.rate or 0.0 for topic in picture.topics.values())))
        picture.outgoing.append((now_ms, sum(group.series.rate or 0.0 for group in picture.groups.values())))
        picture.taken_at_ms = now_ms

    async def _together(self, looks: Iterable[Coroutine[Any, Any, None]]) -> None:
        await asyncio.gather(*looks)

    # Brokers

    async def _look_at_brokers(self) -> None:
        picture = self.picture
        try:
            table = await self._asker.run(cluster)
        except PyroError as error:
            # Brokers go on without a name server, and so does what can be seen of them.
            picture.troubles["cluster"] = str(error)
            brokers = [
                replace(broker, figures={}, failure=None, refusal_step=None) for broker in picture.brokers
            ]
        else:
            picture.troubles.pop("cluster", None)
            brokers = [
                Broker(cluster=each.cluster, name=each.broker_name, broker_id=broker_id, address=address)
                for each in sorted(
                    table.broker_addr_table.values(), key=lambda one: (one.cluster, one.broker_name)
                )
                for broker_id, address in sorted(each.broker_addrs.items())
            ]
            picture.gone = gone(picture, brokers, self._clock.now_ms())
        await self._together(self._ask_figures(broker) for broker in brokers)
        picture.brokers = brokers

    async def _ask_figures(self, broker: Broker) -> None:
        try:
            answer = await self._asker.ask(broker.address, RequestCode.GET_BROKER_RUNTIME_INFO)
            broker.figures = decode_key_values(answer.body).table
        except Refused as error:
            broker.failure, broker.refusal_step = str(error), next_step(error)
        except PyroError as error:
            broker.failure = str(error)

    # Tables

    async def _look_at_tables(self) -> None:
        picture = self.picture
        picture.producers = None
        for name in ("topics", "groups", "producers"):
            picture.troubles = {key: why for key, why in picture.troubles.items() if not key.startswith(name)}
        await self._together(
            look
            for broker in picture.masters
            if broker.answers
            for look in (
                self._guarded("topics", broker, self._look_at_topic_table(broker)),
                self._guarded("groups", broker, self._look_at_group_table(broker)),
                self._guarded("producers", broker, self._look_at_producers(broker)),
            )
        )
        # Of brokers that are gone, and may come back, it stays known that they have queues.
        self._forget_others({broker.name for broker in (*picture.brokers, *picture.gone)})
        await self._look_at_replicas()

    def _forget_others(self, names: set[str]) -> None:
        """Drop what only brokers said that are not there any more."""
        picture = self.picture
        picture.topics = {
            name: topic for name, topic in picture.topics.items() if topic.configs.keys() & names
        }
        for group in picture.groups.values():
            group.configs = {name: config for name, config in group.configs.items() if name in names}
            for topic, offsets in group.offsets.items():
                group.offsets[topic] = {
                    queue: at for queue, at in offsets.items() if queue.broker_name in names
                }

    async def _guarded(self, what: str, broker: Broker, look: Coroutine[Any, Any, None]) -> None:
        try:
            await look
        except PyroError as error:
            self.picture.troubles[f"{what} {broker.name}"] = str(error)

    async def _look_at_topic_table(self, broker: Broker) -> None:
        answer = await self._asker.ask(broker.address, RequestCode.GET_ALL_TOPIC_CONFIG)
        there = decode_topic_table(answer.body).topic_config_table
        topics = self.picture.topics
        for name, config in there.items():
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = Topic(name, self.picture.kind_of_topic(name))
            topic.configs[broker.name] = config
        for topic in topics.values():
            if topic.name not in there and topic.configs.pop(broker.name, None) is not None:
                topic.edges = {
                    queue: edge for queue, edge in topic.edges.items() if queue.broker_name != broker.name
                }

    async def _look_at_group_table(self, broker: Broker) -> None:
        answer = await self._asker.ask(broker.address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        there = decode_group_table(answer.body).subscription_group_table
        for name, config in there.items():
            self._group(name).configs[broker.name] = config
        for group in self.picture.groups.values():
            if group.name not in there:
                group.configs.pop(broker.name, None)

    async def _look_at_producers(self, broker: Broker) -> None:
        answer = await self._asker.ask(broker.address, RequestCode.GET_ALL_PRODUCER_INFO)
        found: dict[str, dict[str, ProducerClient]] = self.picture.producers or {}
        for group, clients in decode_producers(answer.body).items():
            found.setdefault(group, {}).update({client.client_id: client for client in clients})
        self.picture.producers = found

    async def _look_at_replicas(self) -> None:
        picture = self.picture
        names = {broker.name for broker in picture.brokers}
        picture.replicas = {name: listed for name, listed in picture.replicas.items() if name in names}
        await self._together(self._look_at_replicas_of(name) for name in sorted(names))

    async def _look_at_replicas_of(self, name: str) -> None:
        picture = self.picture
        brokers = [broker for broker in picture.brokers if broker.name == name]
        who = tuple((broker.address, broker.figures.get("bootTimestamp")) for broker in brokers)
        if self._fixed_roles.get(name) == who:
            return
        try:
            [(_, listed, _)] = await self._asker.run(replicas.list_replicas, name)
        except PyroError as error:
            picture.troubles[f"replicas {name}"] = str(error)
            return
        picture.troubles.pop(f"replicas {name}", None)
        if listed is not None:
            picture.replicas[name] = listed
        elif all(broker.answers for broker in brokers):
            # Brokers without failover do not know the question, and would log it again and again.
            self._fixed_roles[name] = who

    # Progress

    async def _look_at_progress(self, broker: Broker) -> None:
        try:
            answer = await self._asker.ask(broker.address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        except PyroError as error:
            self.picture.troubles[f"progress {broker.name}"] = str(error)
            return
        self.picture.troubles.pop(f"progress {broker.name}", None)
        table = decode_group_offsets(answer.body)
        for group in self.picture.groups.values():
            for topic, offsets in list(group.offsets.items()):
                left = {queue: at for queue, at in offsets.items() if queue.broker_name != broker.name}
                group.offsets[topic] = left
        for key, offsets_by_id in table.items():
            topic, _, name = key.rpartition("@")
            group = self._group(name)
            known = group.offsets.setdefault(topic, {})
            for queue_id, offset in offsets_by_id.items():
                known[MessageQueue(topic, broker.name, queue_id)] = offset

    def _count_progress(self, now_ms: int) -> None:
        groups = self.picture.groups
        for group in list(groups.values()):
            group.offsets = {topic: offsets for topic, offsets in group.offsets.items() if offsets}
            if not group.configs and not group.offsets:
                del groups[group.name]
                continue
            group.series.add(now_ms, sum(sum(offsets.values()) for offsets in group.offsets.values()))

    def _group(self, name: str) -> Group:
        group = self.picture.groups.get(name)
        if group is None:
            group = self.picture.groups[name] = Group(name, kind_of_group(name))
        return group

    # Topics and groups one by one

    def _topics_of_round(self) -> list[Topic]:
        now = self._clock.monotonic()
        self._wanted_topics = {name: until for name, until in self._wanted_topics.items() if until > now}
        return chosen(
            self.picture.topics.values(), self._wanted_topics, TOPICS_A_ROUND, lambda topic: topic.is_moving
        )

    def _groups_of_round(self) -> list[Group]:
        now = self._clock.monotonic()
        self._wanted_groups = {name: until for name, until in self._wanted_groups.items() if until > now}
        normal = [group for group in self.picture.groups.values() if group.kind is Kind.NORMAL]
        return chosen(normal, self._wanted_groups, GROUPS_A_ROUND, lambda group: False)

    async def _look_at_topic(self, topic: Topic) -> None:
        edges: dict[MessageQueue, TopicOffset] = {}
        failure = None
        for name in list(topic.configs):
            broker = self.picture.master(name)
            if broker is None:
                continue
            if not broker.answers:
                failure = f"{name} does not answer: {broker.failure}"
                continue
            try:
                answer = await self._asker.ask(
                    broker.address, RequestCode.GET_TOPIC_STATS_INFO, GetTopicStats(topic=topic.name)
                )
                edges |= decode_topic_stats(answer.body)
            except PyroError as error:
                failure = f"{name}: {error}"
        topic.looked_at_ms = now_ms = self._clock.now_ms()
        topic.failure = failure
        if failure is None:
            topic.edges = edges
            topic.series.add(now_ms, sum(edge.max_offset for edge in edges.values()))

    async def _look_at_group(self, group: Group) -> None:
        found: dict[str, ConsumerConnections] = {}
        failure = None
        for broker in self.picture.masters:
            if not broker.answers:
                failure = f"{broker.name} does not answer: {broker.failure}"
                continue
            try:
                found[broker.name] = await self._connections(broker, group.name)
            except PyroError as error:
                failure = f"{broker.name}: {error}"
        group.looked_at_ms = self._clock.now_ms()
        group.failure = failure
        if found or failure is None:
            group.connections = found

    async def _connections(self, broker: Broker, group: str) -> ConsumerConnections:
        header = GetConsumerConnectionList(consumer_group=group)
        try:
            answer = await self._asker.ask(broker.address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        except Refused as error:
            if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return ConsumerConnections()
            raise
        return decode_consumer_connections(answer.body)


def gone(picture: Picture, now_there: Sequence[Broker], now_ms: int) -> list[Broker]:
    """Return the brokers that were there and are not any more, for a while or until they come back."""
    there = {broker.address for broker in now_there}
    before = [replace(broker, gone_at_ms=now_ms) for broker in picture.brokers]
    return [
        broker
        for broker in (*picture.gone, *before)
        if broker.address not in there and now_ms - (broker.gone_at_ms or 0) < GONE_MS
    ]


def chosen(
    items: Iterable[Looked], wanted: Container[str], most: int, is_moving: Callable[[Looked], bool]
) -> list[Looked]:
    """Return what to look at in a round: what somebody wants, what moves, and what waited longest."""
    by_age = sorted(items, key=lambda item: item.looked_at_ms)
    first = [item for item in by_age if item.name in wanted][:most]
    taken = {item.name for item in first}
    moving = [item for item in by_age if item.name not in taken and is_moving(item)]
    first += moving[: max(0, int(most * _MOVING_SHARE) - len(first))]
    taken = {item.name for item in first}
    rest = [item for item in by_age if item.name not in taken]
    return first + rest[: most - len(first)]
