"""The role of a broker in its group of replicas: a master lets slaves copy its log, a slave copies.

A master's is here; `following.py` has a slave's, which only a slave imports.

master   followers ─► confirmed ─► answers of a synchronous master, and what may be read with failover
         disk ─► flushed ─► what may be read under synchronous flush
         files ─► committed ─► what may be read and is sent to slaves, with a write buffer
slave    copies the log ─► the store applies it; copies the tables of topics, groups and progress
"""

import logging
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pyromq.broker.addresses import slaves_address
from pyromq.broker.delivery.arrivals import Announcements
from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.durability.replica_wait import Replicated
from pyromq.broker.end_of_turn import BrokerTurn
from pyromq.broker.replication.adoption import adopt_delivered
from pyromq.broker.replication.followers import Followers
from pyromq.broker.replication.ha_server import ReplicationServer
from pyromq.broker.replication.standing import Standing
from pyromq.broker.requests.route_facts import BrokerTable
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.config.choices import BrokerRole
from pyromq.config.settings import BrokerProcess
from pyromq.errors import ConfigError, ListenFailed
from pyromq.net.tls import server_context
from pyromq.net.turn import TurnStep
from pyromq.store.epochs import FILE_NAME, Epochs
from pyromq.store.files import Files, SystemFiles
from pyromq.store.store import MessageStore

if TYPE_CHECKING:
    from pyromq.broker.replication.following import Following
    from pyromq.net.metrics import Figure

log = logging.getLogger(__name__)


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
        self._confirmed(self.followers.confirmed)
        self.followers.on_confirmed = self._confirmed
        if self._replicated is not None and not self._hides_the_rest:
            # Called for each acknowledgement of a slave.
            self.followers.on_confirmed = self._replicated.raise_to

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

    def figures(self) -> "list[Figure]":
        """Return what metrics tell of it."""
        # Only now: a broker that serves no metrics does without them.
        from pyromq.broker.replication.figures import leading_figures

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


Replicating: TypeAlias = "Leading | Following"


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
        # Only a slave pays for what copies.
        from pyromq.broker.replication.following import Following

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
