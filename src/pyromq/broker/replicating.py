"""What a broker does as one of several replicas: a master lets slaves copy its log, a slave copies.

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
from pyromq.broker.announcements import Announcements
from pyromq.broker.durability import Durability, Elsewhere
from pyromq.broker.gate import Gate
from pyromq.broker.parts import Parts
from pyromq.broker.replicated import Replicated
from pyromq.broker.replication.adoption import is_lost
from pyromq.broker.replication.client import ReplicationClient
from pyromq.broker.replication.figures import following_figures, leading_figures
from pyromq.broker.replication.followers import Followers
from pyromq.broker.replication.read_only import guard_slave
from pyromq.broker.replication.server import ReplicationServer
from pyromq.broker.replication.tables import FAILOVER_PERIOD_S, PERIOD_S, CopiedTables, TableCopier
from pyromq.broker.route_facts import BrokerTable
from pyromq.broker.standing import Leader, Standing
from pyromq.config.choices import BrokerRole
from pyromq.errors import ConfigError, ListenFailed
from pyromq.net.links import Links
from pyromq.net.metrics import Figure
from pyromq.net.tls import client_context, server_context
from pyromq.store.epochs import FILE_NAME, Epochs
from pyromq.store.files import Files, SystemFiles

log = logging.getLogger(__name__)

#: The first look is early: the master may be there already.
FIRST_COPY_S = 0.5
#: How often a slave writes down which messages wait for their time.
TIMERS_FOLLOW_S = 5.0


def load_epochs(parts: Parts, standing: Standing, files: Files | None) -> Epochs | None:
    """Return which master wrote which part of the log, None with static roles; the store is open."""
    if not parts.settings.failover:
        return None
    epochs = Epochs(files or SystemFiles(), Path(parts.store_settings.store_path_root_dir) / FILE_NAME)
    epochs.load()
    if standing.cut_at is not None:
        epochs.cut(standing.cut_at)
    if parts.settings.broker_role != BrokerRole.SLAVE:
        # What was there before there were epochs belongs to the first, for a slave that copies it.
        epochs.append(standing.epoch, parts.store.max_position if epochs.entries else 0)
    return epochs


class Leading:
    """A master's duties towards its slaves."""

    def __init__(
        self, parts: Parts, standing: Standing, announcements: Announcements, epochs: Epochs | None
    ) -> None:
        self._parts = parts
        self._announcements = announcements
        settings = parts.store_settings
        in_sync = None if epochs is None else standing.in_sync or frozenset()
        self.followers = Followers(
            parts.store, settings, parts.clock, in_sync=in_sync, confirmed=standing.confirmed
        )
        self._server = ReplicationServer(
            parts.store,
            self.followers,
            settings=settings,
            clock=parts.clock,
            epochs=epochs,
            tls=_context_for_slaves(parts),
        )
        is_synchronous = parts.settings.broker_role == BrokerRole.SYNC_MASTER
        self._replicated = Replicated(self.followers, settings, parts.clock) if is_synchronous else None
        #: What the slaves do not have may be lost with this master, and its offset be another's.
        self._hides_the_rest = is_synchronous and epochs is not None
        self.gate = Gate(
            standing.lease,
            replica_count=lambda: self.followers.replica_count,
            replicas_min=settings.min_in_sync_replicas,
        )
        # The last master may have confirmed all of it, and told so.
        announcements.ends_known_from = parts.store.committed_position
        self.followers.on_confirmed = self._confirmed
        self._confirmed(self.followers.confirmed)

    @property
    def confirmed(self) -> int:
        """Up to where the log is known to be confirmed."""
        return self.followers.confirmed

    @property
    def elsewhere(self) -> Elsewhere | None:
        """Where else a message must be before it is safe."""
        return self._replicated

    @property
    def why_alone(self) -> str | None:
        """Why the slaves of a synchronous master cannot confirm a message, None if they can."""
        if self._replicated is None or self.followers.is_anyone_near(self._parts.store.max_position):
            return None
        return (
            "brokerRole=SYNC_MASTER, and no slave is connected, or none is nearer than haSlaveFallbehindMax; "
            "messages are stored here only, and answered SLAVE_NOT_AVAILABLE"
        )

    def show_what_is_flushed(self, durability: Durability) -> None:
        """Let nobody read what the disk may lose, where each message is brought to it at once."""
        if not durability.syncs_all:
            return
        self._announcements.flushed_up_to(self._parts.store.flushed_position)
        durability.on_flushed = self._announcements.flushed_up_to
        # What a start found in the log may be in the system's memory only.
        durability.appended()

    def show_what_is_committed(self) -> None:
        """Let nobody read what a kill of this process may take, where messages wait in a write buffer."""
        store = self._parts.store
        if store.is_buffered:
            self._announcements.committed_up_to(store.committed_position)
            store.on_committed = self._committed

    def _committed(self, position: int) -> None:
        self._announcements.committed_up_to(position)
        self._server.appended()

    def only_for(self, may_follow: Callable[[str], bool]) -> None:
        """Let only those machines copy the log that may."""
        self._server.may_follow = may_follow

    def guard(self, table: BrokerTable) -> None:
        """Let every request pass the gate first."""
        self.gate.put_before(table)

    async def listen(self, port: int) -> int:
        """Let slaves connect, and return the port where they do, or would if it were free."""
        settings = self._parts.settings
        host, wanted = slaves_address(settings), self._parts.store_settings.ha_listen_port
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
        return leading_figures(self.followers, self._parts.store)

    def appended(self) -> None:
        """Note that the log grew; what is in a write buffer is sent when it is committed."""
        if not self._parts.store.is_buffered:
            self._server.appended()

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
    """A slave's duties towards its master."""

    elsewhere: Elsewhere | None = None

    def __init__(
        self, parts: Parts, standing: Standing, announcements: Announcements, epochs: Epochs | None
    ) -> None:
        self._parts = parts
        self._standing = standing
        self._announcements = announcements
        self._epochs = epochs
        #: Told where this log parts from the master's, None when they have nothing in common.
        self.on_diverged: Callable[[int | None], None] = lambda _position: None
        #: Asked where the master is when nobody was elected: the name servers know.
        self.find_leader: Callable[[], Leader | None] = lambda: None
        self.client: ReplicationClient | None = None
        self.copier: TableCopier | None = None
        if epochs is not None:
            # Nobody knows more of what is confirmed, until the master says so. Of a slave less is expected.
            announcements.ends_known_from = min(1, parts.store.max_position)
            announcements.confirmed_up_to(min(standing.confirmed, parts.store.max_position))

    @property
    def confirmed(self) -> int:
        """Up to where the log is known to be confirmed."""
        return self._parts.store.readable_position or 0

    def guard(self, table: BrokerTable) -> None:
        """Refuse what only a master does."""
        guard_slave(table, self._parts.settings.broker_name)

    async def listen(self, port: int) -> int:
        """Return the port where slaves would connect if this became their master."""
        return self._parts.store_settings.ha_listen_port or port + 1

    def prepare(self, links: Links, durability: Durability) -> TableCopier:
        """Build what copies, and return what notes the progress that clients bring here."""
        parts = self._parts
        self.client = ReplicationClient(
            parts.store,
            ha_address=self._ha_address,
            master_address=self._address,
            links=links,
            settings=parts.store_settings,
            clock=parts.clock,
            epochs=self._epochs,
            epoch=self._standing.epoch,
            broker_id=parts.settings.broker_id,
            on_diverged=lambda position: self.on_diverged(position),
            on_copied=durability.appended,
            on_disk=durability.flushed if durability.syncs_all else None,
            on_confirmed=self._announcements.confirmed_up_to,
            on_following=self._copy_tables_soon,
            tls=_context_for_master(parts),
        )
        self.copier = TableCopier(
            CopiedTables(
                topics=parts.topics,
                groups=parts.groups,
                offsets=parts.offsets,
                delayed=parts.delayed,
                queue_locks=parts.queue_locks,
            ),
            store=parts.store,
            links=links,
            durability=durability,
            master=self._copied_from,
            on_master_role=parts.stats.note_master_role,
        )
        self._follow_timers = partial(parts.timers.follow, durability)
        return self.copier

    def start(self) -> None:
        """Begin to copy."""
        assert self.client is not None
        assert self.copier is not None
        self.client.start()
        self._parts.background.every(
            "copy the master's tables",
            PERIOD_S if self._epochs is None else FAILOVER_PERIOD_S,
            self.copier.copy,
            first_s=FIRST_COPY_S,
        )
        self._parts.background.every("follow what waits", TIMERS_FOLLOW_S, self._follow_timers)

    def _copy_tables_soon(self) -> None:
        assert self.copier is not None
        self.copier.copy_soon()

    def figures(self) -> list[Figure]:
        """Return what metrics tell of it."""
        return [] if self.client is None else following_figures(self.client)

    def appended(self) -> None:
        """Nobody follows a slave."""

    def copied(self, topic: str) -> None:
        """Note a topic of a message that came from the master."""
        if self.copier is not None and is_lost(topic, self._parts.topics):
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
        said = self._parts.store_settings.ha_master_address
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


def _context_for_slaves(parts: Parts) -> ssl.SSLContext | None:
    if not parts.store_settings.ha_use_tls:
        return None
    context = server_context(parts.net_settings)
    if context is None:
        raise ConfigError(
            "haUseTLS needs this broker's certificate: set tlsServerCertPath and tlsServerKeyPath"
        )
    return context


def _context_for_master(parts: Parts) -> ssl.SSLContext | None:
    if not parts.store_settings.ha_use_tls:
        return None
    return client_context(dataclasses.replace(parts.net_settings, use_tls=True))
