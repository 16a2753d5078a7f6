"""Everything that the checks look at, and how the cluster's part of it is gathered.

A server that does not answer is a fact here, and never an error; only when no name server answers is there
nothing to look at. Each name server is asked for itself, since they may disagree, and a broker is looked at
wherever any of them says that it is.
"""

import asyncio
import shlex
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyromq.client.aio.asking import Asker
from pyromq.client.plans.ops_brokers import read_properties
from pyromq.client.plans.ops_places import Place
from pyromq.client.plans.route import cluster
from pyromq.clock import Clock, SystemClock
from pyromq.codes import RequestCode
from pyromq.doctor.broker_time import Reading, read_clock, uptime_s
from pyromq.doctor.group_seen import GroupsSeen
from pyromq.errors import ConnectFailed, NetworkError, PyroError, TlsFailed, TopicNotFound
from pyromq.system_names import SELF_TEST, is_users_topic
from pyromq.wire.bodies.registration import decode_key_values
from pyromq.wire.bodies.replicas import ReplicaList, decode_replicas
from pyromq.wire.bodies.route import ClusterTable, decode_cluster, decode_route
from pyromq.wire.bodies.topics import TopicConfig, decode_topic_table
from pyromq.wire.headers.namesrv import GetRouteInfo

#: Seconds to look at what moves, unless said otherwise.
WATCH_S: Final = 10.0
#: Seconds after its start in which a broker may not have heard of every client: each tells the brokers that
#: it knows once in 30 seconds that it is there, and asks as seldom which brokers there are.
HEARING_S: Final = 60.0
#: The name server that commands ask unless they are told otherwise.
DEFAULT_NAME_SERVER: Final = "127.0.0.1:9876"

#: Told what is being looked at, how much of it is done, and how much there is.
Tell = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Scope:
    """What is examined: these groups and topics only, or all; and for how long what moves is looked at."""

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    watch_s: float = WATCH_S

    def concerns(self, topic: str) -> bool:
        """Whether what a group does with a topic is looked at: messages of each may come by its retries."""
        return not self.topics or topic in self.topics or not is_users_topic(topic)


@dataclass(slots=True)
class NameServerSeen:
    """A name server: the brokers it knows, or why it does not say."""

    address: str
    table: ClusterTable | None = None
    #: What it lets clients do with each broker, by the broker's name.
    perms: dict[str, int] = field(default_factory=dict)
    failure: str | None = None
    #: Whether it is there, and TLS with it failed.
    lacks_tls: bool = False

    def addresses(self, broker_name: str) -> dict[int, str]:
        """Return where it says that a broker's master and slaves are, by their ids."""
        broker = None if self.table is None else self.table.broker_addr_table.get(broker_name)
        return {} if broker is None else dict(broker.broker_addrs)


@dataclass(slots=True)
class BrokerSeen:
    """A broker process: what it says of itself, or why it does not.

    `figures` are what 28 answers, `later` the same after the watch (empty without one); `settings` are what
    25 answers, empty where that is not allowed.
    """

    place: Place
    figures: Mapping[str, str] = field(default_factory=dict)
    later: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    #: This machine's time, just before the question for `figures` left and just after its answer was here.
    asked_at_ms: int = 0
    answered_at_ms: int = 0
    #: Why it does not answer; None if it does.
    failure: str | None = None
    #: Whether it could not even be reached: nobody listens at its address, or nothing comes back.
    is_unreachable: bool = False
    #: Whether it took a connection, and then said nothing.
    is_connected: bool = False
    #: Whether it is there, and TLS with it failed.
    lacks_tls: bool = False

    @property
    def name(self) -> str:
        """The broker's name, and its id if it is a slave."""
        return (
            self.place.broker_name
            if self.place.is_master
            else f"{self.place.broker_name}:{self.place.broker_id}"
        )

    @property
    def running_s(self) -> int | None:
        """For how many seconds it ran when it was asked last; None if it does not say."""
        return uptime_s(self.later or self.figures)

    @property
    def clock(self) -> Reading | None:
        """Its clock as it was when it answered; None if it does not say."""
        return read_clock(self.figures, self.asked_at_ms, self.answered_at_ms)

    @property
    def makes_groups(self) -> bool | None:
        """Whether a group comes into being by its first use; None if it does not say."""
        said = self.settings.get("autoCreateSubscriptionGroup")
        return None if said is None else said == "true"

    def number(self, key: str) -> float | None:
        """Return one of its figures; None if it is not there, or no number."""
        return number(self.figures, key)


@dataclass(slots=True)
class Survey:
    """A cluster as it was seen."""

    scope: Scope = field(default_factory=Scope)
    name_servers: list[NameServerSeen] = field(default_factory=list)
    brokers: list[BrokerSeen] = field(default_factory=list)
    #: Each topic's configs by the names of the masters that have it; RocketMQ's own too.
    topics: dict[str, dict[str, TopicConfig]] = field(default_factory=dict)
    #: What replicas say of their group, by the broker's name; only where etcd decides who is master.
    replicas: dict[str, ReplicaList] = field(default_factory=dict)
    groups: GroupsSeen = field(default_factory=GroupsSeen)
    #: What could not be looked at, and why: sentences.
    could_not: list[str] = field(default_factory=list)

    @property
    def at(self) -> str:
        """The option that says which cluster is meant, for commands to paste; empty if none is needed."""
        addresses = ";".join(one.address for one in self.name_servers)
        return "" if addresses == DEFAULT_NAME_SERVER else f" -n {shlex.quote(addresses)}"

    @property
    def masters(self) -> list[BrokerSeen]:
        """The masters, those that do not answer as well."""
        return [broker for broker in self.brokers if broker.place.is_master]

    @property
    def answering(self) -> list[BrokerSeen]:
        """The masters that answer."""
        return [broker for broker in self.masters if broker.failure is None]

    @property
    def users_topics(self) -> dict[str, dict[str, TopicConfig]]:
        """The applications' topics within the scope, by name: no retries, dead letters or brokers' own."""
        own = {name for broker in self.brokers for name in (broker.place.broker_name, broker.place.cluster)}
        return {
            name: self.topics[name]
            for name in sorted(self.topics)
            if name not in own and is_users_topic(name) and self._is_meant(name)
        }

    def _is_meant(self, topic: str) -> bool:
        if self.scope.topics:
            return topic in self.scope.topics
        return not self.scope.groups or topic in self.groups.topics

    def master(self, broker_name: str) -> BrokerSeen | None:
        """Return the master of a name, if a name server knows one."""
        return next((broker for broker in self.masters if broker.place.broker_name == broker_name), None)

    def newcomers(self, broker_names: Collection[str]) -> list[BrokerSeen]:
        """Return the masters of these names, if each began so lately that clients may not have told it yet
        that they are there; nobody, if one of them must know."""
        masters = [one for one in self.masters if one.place.broker_name in broker_names]
        is_new = [one.running_s is not None and one.running_s < HEARING_S for one in masters]
        return masters if all(is_new) else []


def number(figures: Mapping[str, str], key: str) -> float | None:
    """Return a figure; None if it is not there, or no number."""
    try:
        return float(figures.get(key, ""))
    except ValueError:
        return None


async def look_at_cluster(asker: Asker, survey: Survey, tell: Tell, clock: Clock | None = None) -> None:
    """Ask name servers, brokers, and masters for their topics; raise NetworkError when nobody answers."""
    clock = clock or SystemClock()
    # Finds the name servers first where an HTTP address tells them.
    await asker.run(cluster)
    survey.name_servers = [NameServerSeen(address) for address in asker.name_servers]
    await together(tell, "name servers", (_ask_name_server(asker, one) for one in survey.name_servers))
    survey.brokers = [BrokerSeen(place) for place in _places(survey.name_servers)]
    await together(tell, "brokers", (_ask_broker(asker, survey, one, clock) for one in survey.brokers))
    await together(tell, "topics", (_ask_topics(asker, survey, broker) for broker in survey.answering))


async def look_at_brokers_again(asker: Asker, survey: Survey, tell: Tell) -> None:
    """Ask brokers for their figures once more, after the watch."""

    async def ask(broker: BrokerSeen) -> None:
        try:
            broker.later = await _figures(asker, broker.place.address)
        except PyroError as error:
            survey.could_not.append(f"look at {broker.name} a second time: {error}")

    there = [broker for broker in survey.brokers if broker.failure is None]
    await together(tell, "brokers again", (ask(broker) for broker in there))


def give_up(survey: Survey, what: str) -> None:
    """Note, once for both looks, what is too much for one examination."""
    sentence = f"{what}; --group looks at one group"
    if sentence not in survey.could_not:
        survey.could_not.append(sentence)


async def together(tell: Tell, what: str, looks: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Carry out looks side by side, and tell how many are done; the asker lets only so many questions out."""
    under_way = list(looks)
    tell(what, 0, len(under_way))
    done = 0

    async def one(look: Coroutine[Any, Any, None]) -> None:
        nonlocal done
        await look
        done += 1
        tell(what, done, len(under_way))

    await asyncio.gather(*(one(look) for look in under_way))


def _places(name_servers: Iterable[NameServerSeen]) -> list[Place]:
    return sorted(
        {
            Place(broker.cluster, broker.broker_name, broker_id, address)
            for seen in name_servers
            if seen.table is not None
            for broker in seen.table.broker_addr_table.values()
            for broker_id, address in broker.broker_addrs.items()
        }
    )


async def _ask_name_server(asker: Asker, seen: NameServerSeen) -> None:
    try:
        answer = await asker.ask(seen.address, RequestCode.GET_BROKER_CLUSTER_INFO)
        seen.table = decode_cluster(answer.body)
    except PyroError as error:
        seen.failure, seen.lacks_tls = str(error), isinstance(error, TlsFailed)
        return
    try:
        everywhere = GetRouteInfo(topic=SELF_TEST)
        answer = await asker.ask(seen.address, RequestCode.GET_ROUTEINFO_BY_TOPIC, everywhere)
        seen.perms = {queues.broker_name: queues.perm for queues in decode_route(answer.body).queue_datas}
    except TopicNotFound:
        # It has no broker, or only such as begin just now.
        return
    except PyroError as error:
        seen.failure = str(error)


async def _ask_broker(asker: Asker, survey: Survey, broker: BrokerSeen, clock: Clock) -> None:
    address = broker.place.address
    try:
        # The first answer is of one that knows this client: connecting must not count as the way there.
        properties = await asker.ask(address, RequestCode.GET_BROKER_CONFIG)
        broker.settings = read_properties(properties.body.decode("utf-8", "replace"))
    except NetworkError as error:
        broker.failure, broker.is_unreachable = str(error), True
        broker.is_connected = not isinstance(error, ConnectFailed)
        broker.lacks_tls = isinstance(error, TlsFailed)
        return
    except PyroError as error:
        survey.could_not.append(f"read the settings of {broker.name}: {error}")
    try:
        broker.asked_at_ms = clock.now_ms()
        broker.figures = await _figures(asker, address)
        broker.answered_at_ms = clock.now_ms()
    except PyroError as error:
        broker.failure = str(error)
        broker.is_unreachable = broker.is_connected = isinstance(error, NetworkError)
        return
    # Others do not know the question, and note in their logs that somebody asked.
    if broker.settings.get("failover"):
        await _ask_replicas(asker, survey, broker)


async def _figures(asker: Asker, address: str) -> Mapping[str, str]:
    answer = await asker.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    return decode_key_values(answer.body).table


async def _ask_replicas(asker: Asker, survey: Survey, broker: BrokerSeen) -> None:
    try:
        answer = await asker.ask(broker.place.address, RequestCode.LIST_REPLICAS)
        listed = decode_replicas(answer.body)
    except PyroError as error:
        survey.could_not.append(f"list the replicas of {broker.name}: {error}")
        return
    name = broker.place.broker_name
    # The master knows most.
    if broker.place.is_master or name not in survey.replicas:
        survey.replicas[name] = listed


async def _ask_topics(asker: Asker, survey: Survey, broker: BrokerSeen) -> None:
    try:
        answer = await asker.ask(broker.place.address, RequestCode.GET_ALL_TOPIC_CONFIG)
    except PyroError as error:
        survey.could_not.append(f"list the topics of {broker.name}: {error}")
        return
    for name, config in decode_topic_table(answer.body).topic_config_table.items():
        survey.topics.setdefault(name, {})[broker.place.broker_name] = config
