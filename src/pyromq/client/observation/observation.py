"""Collects a snapshot of a cluster, question by question.

The reader decides which questions are asked, and in which order: later ones follow from earlier answers.

    observation = Observation(asker)
    await observation.find_brokers()
    await observation.ask_brokers()
    await observation.ask_topics()
    print(observation.snapshot.topics)

Questions go out side by side, at most `UNDER_WAY_MAX` at a time. A broker that does not answer is skipped for
the rest of the observation; the snapshot tells which broker, and why.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar, TypeVarTuple

from pyromq.client.aio.asking import UNDER_WAY_MAX, Asker
from pyromq.client.observation.snapshot import (
    BrokerSnapshot,
    ClusterSnapshot,
    Moment,
    NameServerSnapshot,
    Question,
)
from pyromq.client.plans.admin.brokers import read_properties
from pyromq.client.plans.admin.lookups import topics as topics_of_name_server
from pyromq.client.plans.admin.targets import BrokerPlace, places
from pyromq.client.plans.route_plans import cluster
from pyromq.clock import Clock, SystemClock
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import NetworkError, PyroError, Refused, TopicNotFound
from pyromq.model import MessageQueue
from pyromq.system_names import SELF_TEST
from pyromq.wire.bodies.connection_bodies import decode_consumer_connections
from pyromq.wire.bodies.group_bodies import decode_group_table
from pyromq.wire.bodies.offset_bodies import decode_consume_stats, decode_group_offsets, decode_topic_stats
from pyromq.wire.bodies.operation_bodies import (
    decode_group_names,
    decode_lags,
    decode_producers,
    decode_rates,
)
from pyromq.wire.bodies.registration_bodies import decode_key_values
from pyromq.wire.bodies.replica_bodies import decode_replicas
from pyromq.wire.bodies.route_bodies import decode_cluster, decode_route
from pyromq.wire.bodies.topic_bodies import decode_topic_table
from pyromq.wire.header import Header
from pyromq.wire.headers.admin_headers import GetConsumerConnectionList, GetConsumeStats, GetTopicStats
from pyromq.wire.headers.namesrv_headers import GetRouteInfo
from pyromq.wire.headers.operation_headers import (
    GetBrokerConsumeStats,
    QueryTopicConsumeByWho,
    ViewBrokerStats,
)

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

#: Milliseconds for the progress of all groups of a broker.
LAGS_MS: Final = 20_000
TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
#: Called with the kind of questions that are being asked, how many are answered, and how many there are.
Tell = Callable[[str, int, int], None]


def tell_nobody(_what: str, _done: int, _total: int) -> None:
    """Drop the news of an observation's progress."""


async def side_by_side(
    tell: Tell,
    what: str,
    ask: Callable[[*Arguments], Awaitable[T]],
    asked: Iterable[tuple[*Arguments]],
) -> list[T]:
    """Ask questions side by side, tell the progress, and return the results in order."""
    all_ = list(asked)
    tell(what, 0, len(all_))
    done = 0

    async def one(arguments: tuple[*Arguments]) -> T:
        nonlocal done
        result = await ask(*arguments)
        done += 1
        tell(what, done, len(all_))
        return result

    return await asyncio.gather(*map(one, all_))


class Observation:
    """One round of questions to a cluster, and the snapshot that they fill.

    With `asks_refusing`, a master that refuses its figures is still asked the other questions.
    """

    def __init__(
        self,
        asker: Asker,
        *,
        clock: Clock | None = None,
        tell: Tell = tell_nobody,
        asks_refusing: bool = False,
    ) -> None:
        self.snapshot = ClusterSnapshot()
        self._asker = asker
        self._clock = clock or SystemClock()
        self._tell = tell
        self._asks_refusing = asks_refusing
        self._turns = asyncio.Semaphore(UNDER_WAY_MAX)
        self._places: Sequence[BrokerPlace] = ()

    @property
    def masters(self) -> list[BrokerSnapshot]:
        """The masters that are asked further questions."""
        return [
            broker
            for broker in self.snapshot.masters
            if broker.error is None or (self._asks_refusing and broker.is_there)
        ]

    # Servers

    async def find_brokers(self) -> None:
        """Ask any name server for the brokers; raise NoRoute when it knows none."""
        self._places = await self._asker.run(partial(places, with_slaves=True))

    def use_brokers(self, known: Iterable[BrokerPlace]) -> None:
        """Ask these brokers, whatever name servers say."""
        self._places = list(known)

    async def ask_name_servers(self) -> None:
        """Ask each name server, since they may disagree; raise NetworkError when none answers."""
        # This finds the name servers first where an HTTP address lists them.
        await self._asker.run(cluster)
        self.snapshot.name_servers[:] = await side_by_side(
            self._tell, "name servers", self._ask_name_server, zip(self._asker.name_servers)
        )
        self._places = sorted(
            {
                BrokerPlace(broker.cluster, broker.broker_name, broker_id, address)
                for seen in self.snapshot.name_servers
                if seen.table is not None
                for broker in seen.table.broker_addr_table.values()
                for broker_id, address in broker.broker_addrs.items()
            }
        )

    async def _ask_name_server(self, address: str) -> NameServerSnapshot:
        try:
            answer = await self._asker.ask(address, RequestCode.GET_BROKER_CLUSTER_INFO)
            table = decode_cluster(answer.body)
        except PyroError as error:
            return NameServerSnapshot(address, error=error)
        # Every broker has this topic, so its route has every broker's permission.
        header = GetRouteInfo(topic=SELF_TEST)
        try:
            answer = await self._asker.ask(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
            perms = {queues.broker_name: queues.perm for queues in decode_route(answer.body).queue_datas}
        except TopicNotFound:
            # It has no broker, or only brokers that are starting.
            return NameServerSnapshot(address, table)
        except PyroError as error:
            return NameServerSnapshot(address, table, error=error)
        return NameServerSnapshot(address, table, perms)

    async def ask_brokers(self, *, with_settings: bool = False) -> None:
        """Ask all brokers, slaves too, for their figures; and for their settings, if they are wanted."""
        self.snapshot.brokers[:] = await side_by_side(
            self._tell, "brokers", partial(self._ask_broker, with_settings=with_settings), zip(self._places)
        )
        for broker in self.snapshot.brokers:
            if broker.error is not None and not broker.is_there:
                self.snapshot.silent[broker.address] = broker.error

    async def _ask_broker(self, place: BrokerPlace, *, with_settings: bool) -> BrokerSnapshot:
        seen = BrokerSnapshot(place.cluster, place.broker_name, place.broker_id, place.address)
        if with_settings:
            try:
                # This question opens the connection, so that the next one measures the way of an answer only.
                answer = await self._asker.ask(place.address, Question.SETTINGS.code)
                seen = replace(seen, settings=read_properties(answer.body.decode("utf-8", "replace")))
            except NetworkError as error:
                return replace(seen, error=error)
            except PyroError as error:
                self.snapshot.unanswered[Question.SETTINGS, place.address, ""] = error
        asked_at_ms = self._clock.now_ms()
        try:
            answer = await self._asker.ask(place.address, Question.FIGURES.code)
            figures = decode_key_values(answer.body).table
        except PyroError as error:
            return replace(seen, error=error)
        now_ms = self._clock.now_ms()
        return replace(seen, figures=figures, asked_at_ms=asked_at_ms, answered_at_ms=now_ms)

    async def ask_replicas(self, broker_names: Iterable[str]) -> None:
        """Ask the brokers of these names for their replicas: the master, or a slave if it does not answer."""
        await side_by_side(self._tell, "replicas", self._ask_replicas, zip(sorted(broker_names)))

    async def _ask_replicas(self, name: str) -> None:
        def keep(body: bytes) -> None:
            self.snapshot.replicas[name] = decode_replicas(body)

        # The master has the lowest id, and knows most.
        own = [broker for broker in self.snapshot.brokers if broker.broker_name == name]
        for broker in own:
            if broker.is_there:
                no_failover = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                await self._ask(Question.REPLICAS, broker, keep, unless=no_failover)
            if name in self.snapshot.replicas:
                return
        if not any(broker.address in self.snapshot.silent for broker in own):
            self.snapshot.fixed_roles.add(name)

    # Tables

    async def ask_topic_names(self) -> None:
        """Ask a name server for the names of all topics in the client's namespace."""
        self.snapshot.topic_names[:] = await self._asker.run(topics_of_name_server)

    async def ask_topics(self) -> None:
        """Ask the masters for the configurations of all topics."""

        def keep(_: str, broker: str, body: bytes) -> None:
            for topic, config in decode_topic_table(body).topic_config_table.items():
                self.snapshot.topics.setdefault(topic, {})[broker] = config

        await self._ask_masters(Question.TOPICS, keep)

    async def ask_groups(self) -> None:
        """Ask the masters for the configurations of all groups."""

        def keep(_: str, broker: str, body: bytes) -> None:
            for group, config in decode_group_table(body).subscription_group_table.items():
                self.snapshot.groups.setdefault(group, {})[broker] = config

        await self._ask_masters(Question.GROUPS, keep)

    async def ask_producers(self) -> None:
        """Ask the masters for all producers."""

        def keep(_: str, _broker: str, body: bytes) -> None:
            for group, clients in decode_producers(body).items():
                known = self.snapshot.producers.setdefault(group, {})
                known |= {client.client_id: client for client in clients}

        await self._ask_masters(Question.PRODUCERS, keep)

    async def ask_offsets(self, at: Collection[str] | None = None) -> None:
        """Ask the masters, or only those of these names, for the offsets of all groups, unlisted ones too."""

        def keep(_: str, broker: str, body: bytes) -> None:
            for key, by_id in decode_group_offsets(body).items():
                topic, _, group = key.rpartition("@")
                known = self.snapshot.offsets.setdefault(group, {}).setdefault(topic, {})
                for queue_id, offset in by_id.items():
                    known[MessageQueue(topic, broker, queue_id)] = offset

        await self._ask_masters(Question.OFFSETS, keep, None if at is None else {"": at})

    async def ask_lags(self) -> None:
        """Ask the masters for offsets and lags of all groups that they have."""

        def keep(_: str, _broker: str, body: bytes) -> None:
            for group, lags in decode_lags(body).items():
                self.snapshot.lags.setdefault(group, []).extend(lags)

        await self._ask_masters(
            Question.LAGS, keep, header=lambda _: GetBrokerConsumeStats(is_order=False), timeout_ms=LAGS_MS
        )

    # Topics and groups one by one

    async def ask_queues(self, topics: Mapping[str, Collection[str]]) -> None:
        """Ask for begin and end of the queues of topics, each at the masters of these names."""

        def keep(_topic: str, _broker: str, body: bytes) -> None:
            self.snapshot.queues.update(decode_topic_stats(body))

        await self._ask_masters(Question.QUEUES, keep, topics, lambda topic: GetTopicStats(topic=topic))

    async def ask_readers(self, topics: Mapping[str, Collection[str]]) -> None:
        """Ask which groups read topics, each at the masters of these names."""

        def keep(_topic: str, broker: str, body: bytes) -> None:
            for group in decode_group_names(body):
                self.snapshot.readers.setdefault(group, set()).add(broker)

        await self._ask_masters(
            Question.READERS, keep, topics, lambda topic: QueryTopicConsumeByWho(topic=topic)
        )

    async def ask_members(self, groups: Mapping[str, Collection[str]]) -> None:
        """Ask for the members of groups, each at the masters of these names."""

        def keep(group: str, broker: str, body: bytes) -> None:
            self.snapshot.members.setdefault(group, {})[broker] = decode_consumer_connections(body)

        await self._ask_masters(
            Question.MEMBERS,
            keep,
            groups,
            lambda group: GetConsumerConnectionList(consumer_group=group),
            unless=ResponseCode.CONSUMER_NOT_ONLINE,
        )

    async def ask_progress(self, groups: Mapping[str, Collection[str]]) -> None:
        """Ask how far groups are, each at the masters of these names."""

        def keep(group: str, _broker: str, body: bytes) -> None:
            self.snapshot.progress.setdefault(group, {}).update(decode_consume_stats(body))

        await self._ask_masters(
            Question.PROGRESS, keep, groups, lambda group: GetConsumeStats(consumer_group=group)
        )

    async def ask_put_rates(self, topics: Iterable[str]) -> None:
        """Ask all masters for the rates of topics."""

        def keep(topic: str, _broker: str, body: bytes) -> None:
            rates = self.snapshot.put_rates
            rates[topic] = rates.get(topic, 0.0) + decode_rates(body).stats_minute.tps

        everywhere = {broker.broker_name for broker in self.masters}
        await self._ask_masters(
            Question.PUT_RATE,
            keep,
            dict.fromkeys(topics, everywhere),
            lambda topic: ViewBrokerStats(stats_name=TOPIC_PUT_NUMS, stats_key=topic),
            # RocketMQ has no code of its own for a counter that does not exist yet.
            unless=ResponseCode.SYSTEM_ERROR,
        )

    async def _ask_masters(
        self,
        question: Question,
        keep: Callable[[str, str, bytes], None],
        wanted: Mapping[str, Collection[str]] | None = None,
        header: Callable[[str], Header | None] = lambda _: None,
        *,
        timeout_ms: int | None = None,
        unless: ResponseCode | None = None,
    ) -> None:
        """Ask all masters, or about each topic or group the masters of its names; keep each answer."""
        self.snapshot.asked_at[question] = Moment(self._clock.now_ms(), self._clock.monotonic())

        async def ask(broker: BrokerSnapshot, about: str) -> None:
            own = partial(keep, about, broker.broker_name)
            await self._ask(
                question, broker, own, header(about), about=about, timeout_ms=timeout_ms, unless=unless
            )

        asked = (
            (broker, about)
            for broker in self.masters
            for about, at in ({"": (broker.broker_name,)} if wanted is None else wanted).items()
            if broker.broker_name in at
        )
        await side_by_side(self._tell, question.label, ask, asked)

    async def _ask(
        self,
        question: Question,
        broker: BrokerSnapshot,
        keep: Callable[[bytes], None],
        header: Header | None = None,
        *,
        about: str = "",
        timeout_ms: int | None = None,
        unless: ResponseCode | None = None,
    ) -> None:
        """Ask a broker and keep its answer, or note its error; the code `unless` is an empty answer."""
        seen, address = self.snapshot, broker.address
        async with self._turns:
            if address in seen.silent:
                seen.skipped[address] = seen.skipped.get(address, 0) + 1
                return
            try:
                answer = await self._asker.ask(address, question.code, header, timeout_ms=timeout_ms)
                keep(answer.body)
            except PyroError as error:
                if not isinstance(error, Refused) or error.code != unless:
                    seen.unanswered[question, address, about] = error
                    if isinstance(error, NetworkError):
                        seen.silent[address] = error
                    return
            seen.answered.setdefault(question, set()).add(broker.broker_name)
