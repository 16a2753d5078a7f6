"""The role of a broker in its group of replicas: a master lets slaves copy its log, a slave copies.

master   followers ─► confirmed ─► answers of a synchronous master, and what may be read with failover
         disk ─► flushed ─► what may be read under synchronous flush
         files ─► committed ─► what may be read and is sent to slaves, with a write buffer
slave    copies the log ─► the store applies it; copies the tables of topics, groups and progress
"""

import dataclasses
import logging
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyromq.broker.addresses import slaves_address
from pyromq.broker.background import Background
from pyromq.broker.delivery.arrivals import Announcements
from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.durability.replica_wait import Replicated
from pyromq.broker.end_of_turn import BrokerTurn
from pyromq.broker.replication.adoption import adopt_delivered
from pyromq.broker.replication.client import CopyEvents, FailoverSlave, MasterSource, ReplicationClient
from pyromq.broker.replication.committed_here import CommittedHere
from pyromq.broker.replication.copied_tables import FAILOVER_PERIOD_S, PERIOD_S, CopiedTables, TableCopier
from pyromq.broker.replication.divergence import Diverged
from pyromq.broker.replication.figures import following_figures, leading_figures
from pyromq.broker.replication.followers import Followers
from pyromq.broker.replication.ha_server import ReplicationServer
from pyromq.broker.replication.slave_refusals import guard_slave
from pyromq.broker.replication.standing import Leader, Standing
from pyromq.broker.requests.route_facts import BrokerTable
from pyromq.broker.surroundings import Surroundings
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.config.choices import BrokerRole
from pyromq.config.settings import BrokerProcess
from pyromq.errors import ConfigError, ListenFailed
from pyromq.net.metrics import Figure
from pyromq.net.tls import client_context, server_context
from pyromq.net.turn import TurnStep
from pyromq.store.epochs import FILE_NAME, Epochs
from pyromq.store.files import Files, SystemFiles
from pyromq.store.store import MessageStore

log = logging.getLogger(__name__)

#: The first look is early: the master may be there already.
FIRST_COPY_S = 0.5


class Leading:
    """A master's duties towards its slaves. In `step`, the end of a turn, they are sent the log."""

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
        self._announcements = announcements
        in_sync = None if epochs is None else standing.in_sync or frozenset()
        self.followers = Followers(
            store, settings.store, clock, in_sync=in_sync, confirmed=standing.confirmed
        )
        self._server = ReplicationServer(
            store,
            self.followers,
            settings=settings.store,
            clock=clock,
            epochs=epochs,
            tls=_context_for_slaves(settings),
            step=step,
        )
        is_synchronous = settings.broker.broker_role == BrokerRole.SYNC_MASTER
        self._replicated = Replicated(self.followers, settings.store, clock) if is_synchronous else None
        #: What the slaves do not have may be lost with this master, and its offset be another's.
        self._hides_the_rest = is_synchronous and epochs is not None
        # The last master may have confirmed all of it, and told so.
        announcements.ends_known_from = store.committed_position
        self.followers.on_confirmed = self._confirmed
        self._confirmed(self.followers.confirmed)

    @property
    def confirmed(self) -> int:
        """Up to where the log is known to be confirmed."""
        return self.followers.confirmed

    @property
    def elsewhere(self) -> Replicated | None:
        """The replicas that must have a message before it is safe."""
        return self._replicated

    @property
    def slaves(self) -> ReplicationServer:
        """The server that sends the log to slaves; it is told when the log grew."""
        return self._server

    @property
    def why_alone(self) -> str | None:
        """The reason why slaves of a synchronous master cannot confirm a message, None if they can."""
        if self._replicated is None or self.followers.is_anyone_near(self._store.max_position):
            return None
        return (
            "brokerRole=SYNC_MASTER, and no slave is connected, or none is nearer than haSlaveFallbehindMax; "
            "messages are stored here only, and answered SLAVE_NOT_AVAILABLE"
        )

    def attach(self, durability: Durability, topics: TopicTable) -> None:
        """Announce stored messages, once neither a power cut nor a kill can take them."""
        announcements, store = self._announcements, self._store
        announcements.topics = topics.configs
        announcements.on_unknown = partial(adopt_delivered, topics=topics)
        announcements.log_grew = durability.log_grew
        if durability.syncs_all:
            # A power cut may take what is not synced yet.
            announcements.flushed_up_to(store.flushed_position)
            durability.on_flushed = announcements.flushed_up_to
            # What a start found in the log may be in the system's memory only.
            durability.appended()
        if store.is_buffered:
            # A kill of this process may take what waits in the write buffer.
            announcements.committed_up_to(store.committed_position)
            store.on_committed = self._committed

    def _committed(self, position: int) -> None:
        self._announcements.committed_up_to(position)
        self._server.committed()

    def only_for(self, may_follow: Callable[[str], bool]) -> None:
        """Let only those machines copy the log that may."""
        self._server.may_follow = may_follow

    def guard(self, table: BrokerTable, durability: Durability) -> None:
        """Let every request pass the lease and the count of replicas first."""
        durability.put_before(table)

    async def listen(self, port: int) -> int:
        """Let slaves connect, and return the port where they do, or would if it were free."""
        settings = self._settings.broker
        host, wanted = slaves_address(settings), self._settings.store.ha_listen_port
        try:
            return (await self._server.start(host, wanted or port + 1))[1]
        except ListenFailed as error:
            if not settings.listen_port and not wanted:
                # The broker's own port was the system's choice, so this one may be too.
                return (await self._server.start(host, 0))[1]
            if wanted or self._replicated is not None or settings.failover:
                raise
            log.warning("%s; no slave can follow this broker", error)
            return port + 1

    def figures(self) -> list[Figure]:
        """Return what metrics tell of it."""
        return leading_figures(self.followers, self._store)

    async def close(self) -> None:
        """Let the slaves go, and tell who waits for them that nobody will know."""
        await self._server.close()
        if self._replicated is not None:
            self._replicated.close()

    def _confirmed(self, position: int) -> None:
        if self._hides_the_rest:
            self._announcements.confirmed_up_to(position)
        if self._replicated is not None:
            self._replicated.raise_to(position)


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
        tables: CopiedTables,
        *,
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
            tables,
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


Replicating = Leading | Following


def make_role(
    store: MessageStore,
    settings: BrokerProcess,
    clock: Clock,
    standing: Standing,
    *,
    announcements: Announcements,
    turn: BrokerTurn,
    files: Files | None,
) -> Replicating:
    """Return the role of a broker in its group; its store is open."""
    epochs = _load_epochs(store, settings, standing, files) if settings.broker.failover else None
    if settings.broker.broker_role == BrokerRole.SLAVE:
        return Following(
            store, settings, clock, standing, announcements=announcements, epochs=epochs, step=turn.copy
        )
    return Leading(
        store, settings, clock, standing, announcements=announcements, epochs=epochs, step=turn.replicate
    )


def _load_epochs(
    store: MessageStore, settings: BrokerProcess, standing: Standing, files: Files | None
) -> Epochs:
    """Return which master wrote which part of the log."""
    epochs = Epochs(files or SystemFiles(), Path(settings.store.store_path_root_dir) / FILE_NAME)
    epochs.load()
    if standing.cut_at is not None:
        epochs.cut(standing.cut_at)
    if settings.broker.broker_role != BrokerRole.SLAVE:
        # A log that is older than failover belongs to the first epoch, for a slave that copies it.
        epochs.append(standing.epoch, store.max_position if epochs.entries else 0)
    return epochs


def _context_for_slaves(settings: BrokerProcess) -> ssl.SSLContext | None:
    if not settings.store.ha_use_tls:
        return None
    context = server_context(settings.net)
    if context is None:
        raise ConfigError(
            "haUseTLS needs this broker's certificate: set tlsServerCertPath and tlsServerKeyPath"
        )
    return context


def _context_for_master(settings: BrokerProcess) -> ssl.SSLContext | None:
    if not settings.store.ha_use_tls:
        return None
    return client_context(dataclasses.replace(settings.net, use_tls=True))
