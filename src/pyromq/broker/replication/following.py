"""A slave's role in its group of replicas: it copies its master's log, and the tables beside it.

Only a slave imports this, and what it needs: a master does without.
"""

import dataclasses
import ssl
from collections.abc import Callable

from pyromq.broker.background import Background
from pyromq.broker.delivery.arrivals import Announcements
from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.durability.replica_wait import Replicated
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.kinds.delay import DelayedMessages
from pyromq.broker.replication.client import CopyEvents, FailoverSlave, MasterSource, ReplicationClient
from pyromq.broker.replication.committed_here import CommittedHere
from pyromq.broker.replication.copied_tables import FAILOVER_PERIOD_S, PERIOD_S, CopiedTables, TableCopier
from pyromq.broker.replication.divergence import Diverged
from pyromq.broker.replication.figures import following_figures
from pyromq.broker.replication.ha_server import ReplicationServer
from pyromq.broker.replication.slave_refusals import guard_slave
from pyromq.broker.replication.standing import Leader, Standing
from pyromq.broker.requests.route_facts import BrokerTable
from pyromq.broker.surroundings import Surroundings
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.config.settings import BrokerProcess
from pyromq.net.metrics import Figure
from pyromq.net.tls import client_context
from pyromq.net.turn import TurnStep
from pyromq.store.epochs import Epochs
from pyromq.store.store import MessageStore

#: The first look is early: the master may be there already.
FIRST_COPY_S = 0.5


class Following:
    """A slave's duties towards its master. In `step`, the end of a turn, it goes on copying."""

    elsewhere: Replicated | None = None
    #: A slave has no slaves.
    slaves: ReplicationServer | None = None

    def __init__(
        self,
        store: MessageStore,
        settings: BrokerProcess,
        clock: Clock,
        standing: Standing,
        *,
        announcements: Announcements,
        epochs: Epochs | None,
        step: TurnStep,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._standing = standing
        self._announcements = announcements
        self._epochs = epochs
        self._step = step
        #: Asked where the master is when nobody was elected: the name servers know.
        self.find_leader: Callable[[], Leader | None] = lambda: None
        self.client: ReplicationClient | None = None
        self.copier: TableCopier | None = None
        if epochs is not None:
            # Nobody knows more of what is confirmed, until the master says so. Of a slave less is expected.
            announcements.ends_known_from = min(1, store.max_position)
            announcements.confirmed_up_to(min(standing.confirmed, store.max_position))

    @property
    def confirmed(self) -> int:
        """Up to where the log is known to be confirmed."""
        return self._store.readable_position or 0

    @property
    def why_not_following(self) -> str | None:
        """The reason why this slave does not copy its master's log, None while it does."""
        client = self.client
        if client is not None and client.is_connected:
            return None
        if self._ha_address() is None:
            return "no master is known: neither a name server nor haMasterAddress tells of one"
        said = None if client is None else client.trouble
        return said or "the master's log is not copied yet"

    def guard(self, table: BrokerTable, _durability: Durability) -> None:
        """Refuse what only a master does."""
        guard_slave(table, self._settings.broker.broker_name)

    async def listen(self, port: int) -> int:
        """Return the port where slaves would connect if this became their master."""
        return self._settings.store.ha_listen_port or port + 1

    def attach(self, _durability: Durability, topics: TopicTable) -> None:
        """Let the copier know of topics that come with the log."""
        self._announcements.topics = topics.configs
        self._announcements.on_unknown = lambda topic, _queue_id: self.copied(topic)

    def prepare(
        self,
        surroundings: Surroundings,
        durability: Durability,
        *,
        topics: TopicTable,
        groups: Groups,
        delayed: DelayedMessages,
        on_master_role: Callable[[str], None],
        on_diverged: Callable[[Diverged], None],
    ) -> CommittedHere:
        """Build the clients that copy the log and the tables; return the offsets committed at this slave.

        `on_diverged` is told how this log differs from the master's.
        """
        store, settings, epochs = self._store, self._settings, self._epochs
        links = surroundings.links
        self.find_leader = lambda: surroundings.registration.leader
        self.client = ReplicationClient(
            store,
            self._clock,
            MasterSource(
                ha_address=self._ha_address,
                address=self._address,
                links=links,
                tls=_context_for_master(settings),
            ),
            events=CopyEvents(
                on_diverged=on_diverged,
                on_copied=durability.appended,
                on_following=self._copy_tables_soon,
                on_confirmed=self._announcements.confirmed_up_to,
                on_disk=durability.flushed if durability.syncs_all else None,
            ),
            failover=None
            if epochs is None
            else FailoverSlave(
                epochs=epochs, epoch=self._standing.epoch, broker_id=settings.broker.broker_id
            ),
            step=self._step,
        )
        self.copier = TableCopier(
            CopiedTables(topics=topics, groups=groups, delayed=delayed),
            store=store,
            links=links,
            durability=durability,
            master=self._copied_from,
            on_master_role=on_master_role,
        )
        return self.copier.committed_here

    def start(self, background: Background) -> None:
        """Begin to copy."""
        assert self.client is not None
        assert self.copier is not None
        self.client.start()
        background.every(
            "copy the master's tables",
            PERIOD_S if self._epochs is None else FAILOVER_PERIOD_S,
            self.copier.copy,
            first_s=FIRST_COPY_S,
        )

    def _copy_tables_soon(self) -> None:
        assert self.copier is not None
        self.copier.copy_soon()

    def figures(self) -> list[Figure]:
        """Return what metrics tell of it."""
        return [] if self.client is None else following_figures(self.client)

    def copied(self, topic: str) -> None:
        """Note a topic of a message that came from the master."""
        if self.copier is not None:
            self.copier.learn(topic)

    async def close(self) -> None:
        """Stop copying."""
        if self.copier is not None:
            await self.copier.close()
        if self.client is not None:
            await self.client.close()

    def _leader(self) -> Leader | None:
        return self._standing.leader or self.find_leader()

    def _ha_address(self) -> str | None:
        said = self._settings.store.ha_master_address
        leader = self._leader()
        return said or (None if leader is None else leader.ha_address)

    def _copied_from(self) -> str | None:
        """Return whose tables are copied: with failover, of none but the master that sends its log.

        Whoever was elected last may have come back with less than is here, and be master no more; its tables
        are no newer than the own ones.
        """
        if self._epochs is not None and (self.client is None or not self.client.is_connected):
            return None
        return self._address()

    def _address(self) -> str | None:
        leader = self._leader()
        return None if leader is None else leader.address


def _context_for_master(settings: BrokerProcess) -> ssl.SSLContext | None:
    if not settings.store.ha_use_tls:
        return None
    return client_context(dataclasses.replace(settings.net, use_tls=True))
