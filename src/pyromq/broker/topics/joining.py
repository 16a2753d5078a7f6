"""A broker and the other masters of its cluster: what a new one takes over, what a first send makes on all.

RocketMQ's brokers know nothing of each other, so a topic is wherever an operator or a first send put it, and
a new broker has none until somebody gives them to it. Both rules here are ours and are off by default.

    copyTopicsOnJoin   name server ── who else? ──► each master: topics (21), groups (201) ──► our tables
    autoCreateOnAll    a first send creates a topic here ──► each master that lacks it (202): create it (17)

A master that does not answer is said in the log. It holds up neither a start, beyond a few seconds, nor any
send.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Set
from typing import TypeVar

from pyromq import system_names
from pyromq.broker.groups.groups import GroupTable
from pyromq.broker.registration_targets import RegistrationTargets
from pyromq.broker.topics.attributes import written_changes
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import RequestCode as Code
from pyromq.codes import ResponseCode
from pyromq.config.choices import BrokerRole
from pyromq.config.settings import BrokerSettings
from pyromq.errors import PyroError, ServerFailed, refusal
from pyromq.net.links import Links
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig, decode_group_table
from pyromq.wire.bodies.route_bodies import ClusterTable, decode_cluster
from pyromq.wire.bodies.topic_bodies import TopicConfig, decode_topic_table
from pyromq.wire.command import Command
from pyromq.wire.header import write_header
from pyromq.wire.headers.admin_headers import GetTopicStats
from pyromq.wire.headers.topic_headers import UpdateAndCreateTopic

log = logging.getLogger(__name__)

MASTER_ID = 0
#: Seconds that a name server or a master has for each answer.
ANSWER_S_MAX = 3.0

_Read = TypeVar("_Read")


class Neighbours:
    """The other masters of this broker's cluster, as the name servers know them at the moment."""

    def __init__(self, links: Links, settings: BrokerSettings, name_servers: RegistrationTargets) -> None:
        self._links = links
        self._settings = settings
        self._name_servers = name_servers
        #: Topics that were created here and of which nobody has been told yet.
        self._created: list[TopicConfig] = []
        self._finding: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()

    async def join(self, topics: TopicTable, groups: GroupTable) -> None:
        """Take over the cluster's topics and groups, if this is wanted and the broker has no topic yet.

        To be awaited before the broker registers. Raises StoreError when the tables cannot be saved.
        """
        settings = self._settings
        if not settings.copy_topics_on_join or settings.broker_role == BrokerRole.SLAVE:
            return
        if not self._name_servers.addresses or any(not _is_own(topics, name) for name in topics.configs):
            return
        cluster = await self._cluster()
        masters = {} if cluster is None else self._masters_of(cluster)
        theirs = await asyncio.gather(
            *(self._read(at, Code.GET_ALL_TOPIC_CONFIG, decode_topic_table) for at in masters.values())
        )
        known = await asyncio.gather(
            *(
                self._read(at, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, decode_group_table)
                for at in masters.values()
            )
        )
        # A broker's name is a topic as well, and belongs to that broker.
        names = frozenset() if cluster is None else frozenset(cluster.broker_addr_table)
        for name, table in zip(masters, theirs, strict=True):
            if table is not None:
                count = _add_topics(topics, table.topic_config_table, but=names)
                log.info("took over %d topics from %s", count, name)
        for group_table in known:
            if group_table is not None:
                _add_groups(groups, group_table.subscription_group_table)
        if cluster is None or None in theirs or None in known:
            log.warning(
                "the cluster may have topics or groups that are missing here: not every server answered; "
                "create them (`pyromq topic create NAME`), or start again while there is no topic here"
            )
        await topics.save()
        await groups.save()

    def spread(self, config: TopicConfig) -> None:
        """Create a topic on the other masters too, if this is wanted; nobody waits for it."""
        if not self._settings.auto_create_on_all or not self._name_servers.addresses:
            return
        self._created.append(config)
        if self._finding is None:
            self._finding = asyncio.get_running_loop().create_task(self._tell_all(), name="spread topics")

    async def close(self) -> None:
        """Stop what is under way."""
        tasks = [*self._telling, *([] if self._finding is None else [self._finding])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # Spreading -----------------------------------------------------------------------------------------

    async def _tell_all(self) -> None:
        try:
            while self._created:
                created, self._created = self._created, []
                cluster = await self._cluster()
                masters = {} if cluster is None else self._masters_of(cluster)
                for name, address in masters.items():
                    # Each on its own: one that is silent must not keep the others waiting.
                    task = asyncio.get_running_loop().create_task(self._tell(name, address, created))
                    self._telling.add(task)
                    task.add_done_callback(self._telling.discard)
        finally:
            self._finding = None

    async def _tell(self, name: str, address: str, created: list[TopicConfig]) -> None:
        for config in created:
            try:
                await self._create_if_missing(address, config)
            except PyroError as error:
                log.warning("topic %s is not created on %s: %s", config.topic_name, name, error)

    async def _create_if_missing(self, address: str, config: TopicConfig) -> None:
        """Create a topic at a master unless it has one of that name, which may be another one by now."""
        stats = Command(Code.GET_TOPIC_STATS_INFO, ext=write_header(GetTopicStats(topic=config.topic_name)))
        found = await self._links.request(address, stats, ANSWER_S_MAX)
        if found.code == ResponseCode.SUCCESS:
            return
        if found.code != ResponseCode.TOPIC_NOT_EXIST:
            raise refusal(found.code, found.remark)
        header = UpdateAndCreateTopic(
            topic=config.topic_name,
            default_topic=system_names.AUTO_CREATE,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
            attributes=written_changes(config.attributes),
        )
        await self._ask(address, Command(Code.UPDATE_AND_CREATE_TOPIC, ext=write_header(header)))

    # Asking --------------------------------------------------------------------------------------------

    async def _cluster(self) -> ClusterTable | None:
        """Return the brokers that the first name server knows which answers; None when none does."""
        for address in self._name_servers.addresses:
            table = await self._read(address, Code.GET_BROKER_CLUSTER_INFO, decode_cluster)
            if table is not None:
                return table
        return None

    def _masters_of(self, table: ClusterTable) -> dict[str, str]:
        settings = self._settings
        return {
            name: broker.broker_addrs[MASTER_ID]
            for name, broker in sorted(table.broker_addr_table.items())
            if broker.cluster == settings.broker_cluster_name
            and name != settings.broker_name
            and MASTER_ID in broker.broker_addrs
        }

    async def _read(self, address: str, code: Code, decode: Callable[[bytes], _Read]) -> _Read | None:
        """Return what a server answers; None, and a line in the log, when it does not or says nonsense."""
        try:
            return decode((await self._ask(address, Command(code))).body)
        except PyroError as error:
            log.warning("%s: no answer to %s: %s", address, code.name, error)
            return None

    async def _ask(self, address: str, command: Command) -> Command:
        answer = await self._links.request(address, command, ANSWER_S_MAX)
        if answer.code != ResponseCode.SUCCESS:
            raise refusal(answer.code, answer.remark)
        return answer


def _is_own(topics: TopicTable, name: str) -> bool:
    """Whether every broker has a topic of this name for itself."""
    return name in topics.system_names or name.startswith(system_names.TOPIC_PREFIX)


def _add_topics(topics: TopicTable, theirs: Mapping[str, TopicConfig], *, but: Set[str]) -> int:
    """Add another broker's topics that are missing here, and return how many they were."""
    missing = [
        config
        for name, config in theirs.items()
        if name not in but and topics.get(name) is None and not _is_own(topics, name)
    ]
    count = 0
    for config in missing:
        try:
            topics.put(config)
        except ServerFailed as error:
            log.warning("topic %r is not taken over: %s", config.topic_name, error)
        else:
            count += 1
    return count


def _add_groups(groups: GroupTable, theirs: Mapping[str, SubscriptionGroupConfig]) -> None:
    for name, config in theirs.items():
        if name not in groups.configs:
            groups.put(config)
