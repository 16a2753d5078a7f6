"""A broker: the order in which its rooms open, serve, run and close.

    surroundings ── registration ──► name servers, other masters
    server ─► routes ─► handlers ─► topics, groups
                            └─────► intake ─► store ─► delivery ─► held pulls
                                                └────► durability ─► disk, slaves

`rooms.py` builds the rooms, `requests/handler_table.py` the handlers. Whatever was started is stopped in the
reverse order, whether the start succeeded or not. All rooms live on one loop.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from pyromq.broker.addresses import BrokerAddresses, advertise
from pyromq.broker.broker_health import broker_checks
from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.durability.write_path import WritePath
from pyromq.broker.grpc.grpc_opening import OpenedGrpc, open_grpc
from pyromq.broker.grpc.grpc_rooms import GrpcRooms
from pyromq.broker.kinds.transaction_checks import TransactionChecks
from pyromq.broker.replication.committed_here import CommittedHere
from pyromq.broker.replication.divergence import Diverged
from pyromq.broker.replication.role import Leading, Replicating, make_role
from pyromq.broker.replication.standing import Standing
from pyromq.broker.requests.handler_table import HandlerTable
from pyromq.broker.requests.refusal_causes import LOOK_S as REFUSALS_LOOK_S
from pyromq.broker.requests.refusal_causes import refusal_episodes
from pyromq.broker.rooms import BrokerRooms
from pyromq.broker.surroundings import Surroundings
from pyromq.broker.topics.intake import Admission, Intake
from pyromq.clock import Clock, SystemClock
from pyromq.config.grpc_settings import GrpcOpening
from pyromq.config.settings import BrokerProcess
from pyromq.episodes import Episodes
from pyromq.errors import ListenFailed
from pyromq.kernel import IS_COMPILED
from pyromq.net.process_health import HealthCheck
from pyromq.net.routes import Route
from pyromq.net.server import Server
from pyromq.net.turn import Shortcut
from pyromq.store.files import Files

if TYPE_CHECKING:
    from pyromq.net.metrics import MetricsPage

log = logging.getLogger(__name__)

#: Clients with `vipChannelEnabled` send to the broker's port minus this.
VIP_PORT_BELOW = 2


class Broker(BrokerRooms):
    """One broker of one process. `start` it, `close` it; it is not started twice.

    `files` is where it keeps everything, by default the machine's file system. `use_kernel` lets the compiled
    kernel handle what it can, by default where there is one. `standing` is its place in its group when that
    is not just what the settings say; `on_diverged` is told how a slave's log differs from its master's, and
    `more_routes` are requests that are answered besides. `opening` says when it opens a port for gRPC.
    """

    def __init__(
        self,
        process: BrokerProcess,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        use_kernel: bool = IS_COMPILED,
        standing: Standing | None = None,
        on_diverged: Callable[[Diverged], None] | None = None,
        more_routes: Sequence[Route[Any]] = (),
        opening: GrpcOpening = GrpcOpening.IF_NAMED,
    ) -> None:
        self._standing = standing or Standing()
        super().__init__(process, clock or SystemClock(), files, self._standing.lease)
        self._on_diverged = on_diverged or (lambda _error: None)
        self._more_routes = more_routes
        self._opening = opening
        #: The port for RocketMQ 5's SDKs; known once the broker is started.
        self.grpc = OpenedGrpc()
        self._use_kernel = use_kernel
        self._files = files
        #: The role among its replicas, and what is taken and acknowledged; known once the broker is started.
        self.replicating: Replicating | None = None
        self.durability: Durability | None = None
        self._surroundings: Surroundings | None = None
        self._addresses: BrokerAddresses | None = None
        self._is_leaving = True
        #: The causes of refusals, while the broker runs.
        self._episodes: Episodes | None = None
        self._closing = AsyncExitStack()

    @property
    def address(self) -> str:
        """The address that name servers hand to clients; known once the broker is started."""
        assert self._addresses is not None
        return self._addresses.advertised

    @property
    def port(self) -> int:
        """The port that is listened on; known once the broker is started."""
        assert self._addresses is not None
        return self._addresses.port

    @property
    def ha_address(self) -> str:
        """The address that it advertises to slaves."""
        assert self._addresses is not None
        return self._addresses.ha

    @property
    def registers_with(self) -> tuple[str, ...]:
        """The name servers that it registers with, as they are now."""
        return () if self._surroundings is None else self._surroundings.name_servers.addresses

    @property
    def max_position(self) -> int:
        """The end of the log."""
        return self.store.max_position

    def commit(self) -> None:
        """Write what is in a write buffer to the log's file, so that slaves get it. Raises StoreError."""
        self.store.commit()

    @property
    def ailment(self) -> str | None:
        """The reason why it takes no messages until it is started again, None if it is well."""
        return self.store.ailment

    @property
    def has_room(self) -> bool:
        """Whether its disk has room for messages; it may have some again without a restart."""
        return self.store.is_writable or self.ailment is not None

    def is_behind(self, since: float) -> bool:
        """Whether something that is due is not done yet, after its clock was moved by hand to a time.

        The time is a monotonic one. Jobs that began earlier may run on.
        """
        due_ms = self.kinds.next_due_ms
        is_due = due_ms is not None and due_ms <= self._clock.now_ms()
        return is_due or self._background.is_behind(since)

    @property
    def codes(self) -> frozenset[int]:
        """The request codes that are answered; known once the broker is started."""
        return self._table.codes

    def health(self) -> list[HealthCheck]:
        """Find out whether it lives, and is ready for clients."""
        surroundings, durability, role = self._surroundings, self.durability, self.replicating
        # The episodes begin when it serves, and end when it stops.
        if self._episodes is None or surroundings is None or durability is None or role is None:
            return [HealthCheck("serving", f"{self.settings.broker.broker_name} starts, or stops")]
        return broker_checks(self.store, durability, role, surroundings.registration)

    @property
    def metrics(self) -> "MetricsPage | None":
        """The page of metrics, while it is served."""
        return self._metrics.page

    async def start(self) -> None:
        """Open the store, listen, and make the broker known; when this returns, clients can use it.

        Raises StoreLocked, CorruptRecord or ListenFailed; nothing stays behind then.
        """
        async with AsyncExitStack() as closing:
            self._closing = closing
            await self._start()
            self._closing = closing.pop_all()

    async def close(self, *, unregister: bool = True) -> None:
        """Stop in order: answer what is held, leave the name servers, save the tables, close the store.

        A master that lost its lease must not `unregister`: by its name, the name servers know the next one.
        """
        self._is_leaving = unregister
        if self._episodes is None:
            await self._closing.aclose()
            return
        name, causes = self.settings.broker.broker_name, self._episodes.causes
        self._episodes, self._table.on_refused = None, None
        log.info("%s refuses all requests: it stops", name)
        await self._closing.aclose()
        lasting = "".join(f"; it refused clients until then: {cause}" for cause in causes)
        log.info("%s has stopped%s", name, lasting)

    # Opening

    async def _start(self) -> None:
        closing, settings = self._closing, self.settings
        closing.push_async_callback(asyncio.to_thread, self.store.close)
        await asyncio.to_thread(self._load, self._standing.cut_at)
        # Progress that a crash took back is so on disk before the next message takes its place.
        await self.groups.offsets.save()
        await self.topics.save()
        await self.live.save()
        role = self._take_role()
        durability = self._make_durable(role)
        closing.push_async_callback(self._save_tables, durability)
        for kind in self.kinds:
            closing.push_async_callback(kind.close)
        server = Server(
            self._table,
            settings.net,
            clock=self._clock,
            name=settings.broker.broker_name,
            on_link_closed=self._presence.link_closed,
            turn=self._turn,
        )
        surroundings, write = await self._listen(server, role, durability)
        self._open_grpc(surroundings, write)
        closing.push_async_callback(self._leave, surroundings)
        await surroundings.register()
        surroundings.registration.on_new_topics = self.groups.topic_news.tell
        closing.callback(self.groups.close)
        closing.push_async_callback(self._background.close)
        self._run_jobs(durability, surroundings)
        self._watch_refusals(durability, role)
        await self._serve_metrics(server, role, self.grpc, self.health, closing)
        if isinstance(role, Leading):
            closing.callback(self.kinds.stop)
            self.kinds.lead(durability, self._background)
        else:
            role.start(self._background)
            self.kinds.follow(durability, self._background)

    def _take_role(self) -> Replicating:
        role = self.replicating = make_role(
            self.store,
            self.settings,
            self._clock,
            self._standing,
            announcements=self.delivery.announcements,
            turn=self._turn,
            files=self._files,
        )
        if self._access is not None and isinstance(role, Leading):
            role.only_for(self._access.may_copy)
        self._closing.push_async_callback(role.close)
        return role

    def _make_durable(self, role: Replicating) -> Durability:
        durability = self.durability = Durability(
            self.store,
            self.settings.store,
            self._clock,
            elsewhere=role.elsewhere,
            lease=self._standing.lease,
            slaves=role.slaves,
            busy=self.busy,
            step=self._turn.sync,
        )
        self._closing.callback(durability.close)
        self.groups.offsets.follow_log(durability.sync_now)
        role.attach(durability, self.topics)
        return durability

    # Serving

    def _open_grpc(self, surroundings: Surroundings, write: WritePath) -> None:
        """Open the port for gRPC, if there is to be one."""
        settings = self.settings
        rooms = GrpcRooms(
            settings=settings,
            clock=self._clock,
            turn=self._turn,
            live=self.live,
            folder=self.folder,
            table=self._table,
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            presence=self._presence,
            filters=self.delivery.filters,
            arrivals=self.delivery.arrivals,
            pop=self.pop,
            on_read=self._metrics.stats.pulled,
            halves=self.kinds.halves,
            access=self._access,
            write=write,
            surroundings=surroundings,
        )
        self.grpc = open_grpc(settings.grpc, self._opening, rooms, settings.broker.bind_address)
        self._note_grpc()
        if self.grpc.at is not None:
            self._closing.push_async_callback(self.grpc.at.close)
            self.grpc.at.on_news = self._note_grpc
            self.grpc.at.run(self._background)

    def _note_grpc(self) -> None:
        self._metrics.stats.note_grpc(self.grpc.address, self.grpc.why_not)

    async def _listen(
        self, server: Server, role: Replicating, durability: Durability
    ) -> tuple[Surroundings, WritePath]:
        """Listen, and fill the table of routes; where the port is known, the table is filled before."""
        settings, closing = self.settings.broker, self._closing
        port = settings.listen_port
        if port:
            joined = await self._join(server, role, durability, port)
        closing.push_async_callback(server.close)
        closing.callback(self.delivery.close)
        _, real_port = await server.start(settings.bind_address, port)
        if not port:
            # Nobody knows a port yet that the system chose just now.
            return await self._join(server, role, durability, real_port)
        if port > VIP_PORT_BELOW:
            try:
                await server.start(settings.bind_address, port - VIP_PORT_BELOW)
            except ListenFailed as error:
                log.warning("%s; clients with vipChannelEnabled cannot connect", error)
        return joined

    async def _join(
        self, server: Server, role: Replicating, durability: Durability, port: int
    ) -> tuple[Surroundings, WritePath]:
        """Join the cluster with the addresses that follow from the port, and fill the table of routes."""
        settings, clock = self.settings, self._clock
        addresses = self._addresses = await advertise(settings.broker, port, await role.listen(port))
        surroundings = self._surroundings = Surroundings(
            settings, clock, self.topics, addresses, self._standing.lease
        )
        self._closing.push_async_callback(surroundings.close)
        await surroundings.join(self.groups.table)
        write = WritePath(
            admission=Admission(self.topics, settings.broker, clock, broker_ip=addresses.ip),
            intake=Intake(
                self.store,
                message_bytes_max=settings.store.max_message_size,
                diversions=self.kinds.diversions(addresses.ip),
                plain_diversions=self.kinds.plain_diversions,
            ),
            durability=durability,
            addresses=addresses,
        )
        committed_here = None
        if isinstance(role, Leading):
            self.pop.lead(durability, store_host=addresses.store_host)
        else:
            committed_here = role.prepare(
                surroundings,
                durability,
                topics=self.topics,
                groups=self.groups,
                delayed=self.kinds.delayed,
                on_master_role=self._metrics.stats.note_master_role,
                on_diverged=self._on_diverged,
            )
        self._turn.shortcut = self._add_handlers(write, surroundings, committed_here)
        self._table.add(self._more_routes)
        self._table.pressure = durability
        self._metrics.watch(durability, self._table)
        role.guard(self._table, durability)
        return surroundings, write

    def _add_handlers(
        self, write: WritePath, surroundings: Surroundings, committed_here: CommittedHere | None
    ) -> Shortcut | None:
        """Add the handlers of all rooms to the table; return the shortcut around it."""
        handlers = HandlerTable(
            self._table,
            self.live,
            self._clock,
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            write=write,
        )
        send = handlers.add_sends()
        pull = handlers.add_pulls(self.delivery, self._turn)
        handlers.add_kinds(self.kinds, self.delivery.announcements, use_kernel=self._use_kernel)
        progress = handlers.add_groups(self._presence, committed_here)
        handlers.add_pops(self.pop, self.delivery, self._metrics)
        handlers.add_assignments(surroundings.routes)
        handlers.add_operators(
            surroundings.registration,
            self._metrics,
            self.busy,
            filters=self.delivery.filters,
            delayed=self.kinds.delayed,
            let_files_go=partial(self._old_files.let_go, at_any_hour=True),
            pop=self.pop,
        )
        handlers.add_access(self._access)
        self.kinds.halves.check = TransactionChecks(
            write,
            halves=self.kinds.halves,
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            settings=self.settings,
            clock=self._clock,
            may_publish=(lambda _caller, _topic: True) if self._access is None else self._access.may_publish,
        ).check
        return handlers.shortcut(
            send,
            pull,
            progress,
            delivery=self.delivery,
            metrics=self._metrics,
            busy=self.busy,
            use_kernel=self._use_kernel,
        )

    # Running

    def _watch_refusals(self, durability: Durability, role: Replicating) -> None:
        """Log when clients begin to be refused, and when that ends; a stop tells what lasted until then."""
        episodes = self._episodes = refusal_episodes(
            self.settings.broker,
            self._clock,
            store=self.store,
            durability=durability,
            busy=self.busy,
            replicating=role,
        )
        self._table.on_refused = self.busy.on_begin = episodes.look
        self._background.every("look for refusals", REFUSALS_LOOK_S, episodes.look)
        episodes.look()

    # Closing

    async def _leave(self, surroundings: Surroundings) -> None:
        if self._is_leaving:
            await surroundings.registration.unregister()
