"""Builds the parts of a broker, wires them, runs them: the only file that knows all.

    links ── registration ──► name servers
    server ─► routes ─► handlers ─► tables (topics, groups, offsets) and clients
                            └─────► intake ─► store ─► arrivals ─► held pulls
                                                └────► durability

Everything here lives on one loop. What is started is stopped in the reverse order, whether the start
succeeded or not.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from pyromq.broker.addresses import BrokerAddresses, advertise
from pyromq.broker.admission import Admission
from pyromq.broker.arrivals import Arrivals
from pyromq.broker.background import Background
from pyromq.broker.clients import Consumers, Producers
from pyromq.broker.delay import DelayedMessages, delay_diversion
from pyromq.broker.durability import Durability
from pyromq.broker.fast_pulls import FastPulls, make_pulls
from pyromq.broker.fast_sends import FastSends, make_sends
from pyromq.broker.filters import FilterTable
from pyromq.broker.groups import GroupTable
from pyromq.broker.half_messages import HalfMessages, half_diversion
from pyromq.broker.handlers.admin import AdminHandlers
from pyromq.broker.handlers.presence import PresenceHandlers
from pyromq.broker.handlers.progress import ProgressHandlers
from pyromq.broker.handlers.pull import MASTER_ID, PullHandlers
from pyromq.broker.handlers.query import QueryHandlers
from pyromq.broker.handlers.relay import RelayHandlers
from pyromq.broker.handlers.reply import ReplyHandlers
from pyromq.broker.handlers.retry import RetryHandlers
from pyromq.broker.handlers.send import SendHandlers
from pyromq.broker.handlers.timers import TimerHandlers
from pyromq.broker.handlers.transaction import TransactionHandlers
from pyromq.broker.intake import Intake
from pyromq.broker.membership import Membership
from pyromq.broker.metrics import MetricsPage, Sources, start_metrics
from pyromq.broker.offset_events import OffsetEvents
from pyromq.broker.offsets import OffsetTable
from pyromq.broker.queue_locks import QueueLocks
from pyromq.broker.registration import FIRST_PERIOD_MS, Registration
from pyromq.broker.routes import (
    admin_routes,
    group_routes,
    kind_routes,
    pull_routes,
    query_routes,
    send_routes,
    staging_routes,
    timer_routes,
)
from pyromq.broker.staging.table import StagedTable
from pyromq.broker.staging.wiring import start_staging
from pyromq.broker.subscription_conflicts import SubscriptionConflicts
from pyromq.broker.timers.timed import timer_diversions
from pyromq.broker.timers.timers import Timers
from pyromq.broker.topic_names import SCHEDULE, WHEEL_TIMER
from pyromq.broker.topics import TopicTable
from pyromq.broker.transaction_checks import TransactionChecks
from pyromq.clock import Clock, SystemClock
from pyromq.config.settings import BrokerProcess, BrokerRole
from pyromq.errors import ConfigError, ListenFailed, ServiceNotAvailable, StoreError
from pyromq.kernel import IS_COMPILED
from pyromq.net.link import Link, either
from pyromq.net.links import Links
from pyromq.net.routes import RouteTable
from pyromq.net.server import Server
from pyromq.store.files import Files, SystemFiles
from pyromq.store.retention import Swept
from pyromq.store.store import MessageStore
from pyromq.wire import properties as names

log = logging.getLogger(__name__)

HELD_PULLS_SWEEP_S = 5.0
TIMERS_WRITE_S = 1.0
SILENT_CLIENTS_SWEEP_S = 10.0
SUBSCRIPTIONS_LOOK_S = 1.0
#: Clients with `vipChannelEnabled` send to the broker's port minus this.
VIP_PORT_BELOW = 2


class Broker:
    """One broker of one process. `start` it, `close` it; it is not started twice.

    `files` is where it keeps everything, by default the machine's file system. `use_kernel` lets the compiled
    kernel handle what it can, by default where there is one.
    """

    def __init__(
        self,
        process: BrokerProcess,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        use_kernel: bool = IS_COMPILED,
    ) -> None:
        self._settings = process.broker
        self._store_settings = process.store
        self._net_settings = process.net
        self._clock = clock or SystemClock()
        if not self._store_settings.store_path_root_dir:
            raise ConfigError("storePathRootDir: a broker needs a folder to keep its messages in")
        if self._settings.broker_role == BrokerRole.SLAVE:
            raise ConfigError(
                "brokerRole=SLAVE: this version cannot follow a master, and a slave that copies nothing "
                "would serve nothing; run Apache's slave, or a second master under another brokerName"
            )
        root = Path(self._store_settings.store_path_root_dir)
        config = root / "config"
        self._topics = TopicTable(config / "topics.json", self._settings, self._clock, files=files)
        self._groups = GroupTable(config / "subscriptionGroup.json", self._settings, self._clock, files=files)
        self._offsets = OffsetTable(config / "consumerOffset.json", files=files)
        self._queue_locks = QueueLocks(config / "queueLocks.json", self._clock, files=files)
        self._filters = FilterTable(config / "consumerFilter.json", self._settings, self._clock, files=files)
        self._staged = StagedTable(config / "stagedBatches.json", files=files)
        self._store = MessageStore(self._store_settings, clock=self._clock, files=files)
        self._delayed = DelayedMessages(
            self._store, self._clock, path=config / "delayOffset.json", files=files
        )
        # SQLite knows no file system but the machine's.
        has_files = files is None or isinstance(files, SystemFiles)
        self._timers = Timers(
            self._store, self._clock, path=root / "timers" / "waiting.db" if has_files else None
        )
        self._halves = HalfMessages(self._store, self._offsets)
        self._arrivals = Arrivals(self._store.max_offset, self._clock)
        self._producers = Producers(self._clock)
        self._consumers = Consumers(self._clock)
        membership = Membership(self._groups, self._settings)
        self._conflicts = SubscriptionConflicts(self._settings, self._clock, membership.warn)
        #: Where metrics are served, if they are.
        self.metrics: MetricsPage | None = None
        self._presence = PresenceHandlers(
            producers=self._producers,
            consumers=self._consumers,
            groups=self._groups,
            topics=self._topics,
            filters=self._filters,
            membership=membership,
            conflicts=self._conflicts,
            clock=self._clock,
        )
        self._background = Background(self._clock)
        self._use_kernel = use_kernel
        self._table = RouteTable(())
        #: Called for each message that was stored, when the disk is to have it at once.
        self._sync_soon: Callable[[], None] | None = None
        #: Files that the store let go and that are still to be removed.
        self._swept: list[Swept] = []
        self._addresses: BrokerAddresses | None = None
        self._closing = AsyncExitStack()

    @property
    def address(self) -> str:
        """What name servers hand to clients; known once the broker is started."""
        assert self._addresses is not None
        return self._addresses.advertised

    @property
    def port(self) -> int:
        """The port that is listened on; known once the broker is started."""
        assert self._addresses is not None
        return self._addresses.port

    @property
    def codes(self) -> frozenset[int]:
        """The request codes that are answered; known once the broker is started."""
        return self._table.codes

    async def start(self) -> None:
        """Open the store, listen, and make the broker known; when this returns, clients can use it.

        Raises StoreLocked, CorruptRecord or ListenFailed; nothing stays behind then.
        """
        async with AsyncExitStack() as closing:
            self._closing = closing
            await self._start()
            self._closing = closing.pop_all()

    async def close(self) -> None:
        """Stop in order: answer what is held, leave the name servers, save the tables, close the store."""
        await self._closing.aclose()

    async def _start(self) -> None:
        closing = self._closing
        closing.push_async_callback(asyncio.to_thread, self._store.close)
        await asyncio.to_thread(self._open)
        # What a crash took back is so on disk before the next message takes its place.
        await self._offsets.save()
        durability = Durability(self._store, self._store_settings, self._clock)
        closing.callback(durability.close)
        if not durability.is_immediate:
            self._sync_soon = durability.appended
        closing.push_async_callback(self._save_tables, durability)
        closing.push_async_callback(self._timers.close)

        server = Server(
            self._table,
            self._net_settings,
            clock=self._clock,
            name=self._settings.broker_name,
            on_link_closed=self._link_closed,
        )
        port = self._settings.listen_port
        if port:
            # The routes stand before the first client can come.
            registration, checks = await self._wire(server, durability, port)
        closing.push_async_callback(server.close)
        closing.callback(self._arrivals.wake_all)
        _, real_port = await server.start(self._settings.bind_address, port)
        if port:
            await self._listen_vip(server, port)
        else:
            # Nobody knows a port yet that the system chose just now.
            registration, checks = await self._wire(server, durability, real_port)
        closing.push_async_callback(registration.unregister)
        await registration.register()
        self._topics.on_change = registration.register_soon
        self._run_jobs(durability, registration)
        await self._serve_metrics(server)
        if self._settings.broker_role != BrokerRole.SLAVE:
            self._run_deliveries(durability, checks)

    def _open(self) -> None:
        self._store.on_append = self._appended
        recovered = self._store.open()
        self._topics.load()
        self._groups.load()
        self._offsets.load()
        self._queue_locks.load()
        self._filters.load()
        self._staged.load()
        if not recovered.was_clean:
            self._offsets.keep_within(self._store.max_offset)
        self._delayed.load()
        self._halves.load(recovered.last_position)

    def _appended(self, topic: str, queue_id: int, end: int, tags_code: int) -> None:
        self._arrivals.announce(topic, queue_id, end, tags_code)
        if topic == SCHEDULE:
            self._delayed.arrived(queue_id, tags_code)
        elif topic == WHEEL_TIMER:
            self._timers.arrived(end, tags_code)
        if self._sync_soon is not None:
            self._sync_soon()

    async def _wire(
        self, server: Server, durability: Durability, port: int
    ) -> tuple[Registration, TransactionChecks]:
        """Build what needs the broker's addresses, and fill the table of routes."""
        settings = self._settings
        addresses = self._addresses = await advertise(settings, self._store_settings, port)
        links = Links(self._net_settings, clock=self._clock, name=settings.broker_name)
        self._closing.push_async_callback(links.close)
        registration = Registration(
            links, self._topics, settings, address=addresses.advertised, ha_address=addresses.ha
        )
        intake = Intake(
            self._store,
            message_bytes_max=self._store_settings.max_message_size,
            diversions={
                names.TRANSACTION_PREPARED: half_diversion(settings, broker_ip=addresses.ip),
                **timer_diversions(self._store_settings, self._clock.now_ms),
                names.DELAY: delay_diversion(self._store.delays_ms),
            },
        )
        send = self._send_handlers(intake, durability, addresses)
        pull = self._pull_handlers(intake, addresses)
        server.shortcut = either(
            self._fast_sends(send, intake, durability, addresses), self._fast_pulls(pull)
        )
        self._table.add(send_routes(send))
        self._table.add(
            kind_routes(
                self._retry_handlers(intake, durability, addresses),
                self._transaction_handlers(intake, durability, addresses),
                self._reply_handlers(intake, addresses),
            )
        )
        self._table.add(
            staging_routes(
                await start_staging(
                    store=self._store,
                    intake=intake,
                    topics=self._topics,
                    admission=self._admission(addresses),
                    arrivals=self._arrivals,
                    durability=durability,
                    settings=settings,
                    clock=self._clock,
                    store_host=addresses.store_host,
                    table=self._staged,
                    use_kernel=self._use_kernel,
                    background=self._background,
                    closing=self._closing,
                )
            )
        )
        self._table.add(pull_routes(pull))
        self._table.add(
            group_routes(ProgressHandlers(self._store, self._offsets, self._queue_locks), self._presence)
        )
        self._table.add(
            query_routes(
                QueryHandlers(self._store, unique_count_max=self._store_settings.default_query_max_num)
            )
        )
        self._table.add(timer_routes(self._timer_handlers(durability)))
        self._table.add(admin_routes(self._admin_handlers(registration), self._relay_handlers()))
        return registration, self._transaction_checks(intake, durability)

    def _send_handlers(
        self, intake: Intake, durability: Durability, addresses: BrokerAddresses
    ) -> SendHandlers:
        return SendHandlers(
            admission=self._admission(addresses),
            topics=self._topics,
            groups=self._groups,
            intake=intake,
            durability=durability,
            settings=self._settings,
            store_host=addresses.store_host,
        )

    def _fast_sends(
        self, send: SendHandlers, intake: Intake, durability: Durability, addresses: BrokerAddresses
    ) -> FastSends | None:
        # A synchronous master answers each send by what its slave has.
        if not self._use_kernel or self._settings.broker_role == BrokerRole.SYNC_MASTER:
            return None
        sends = make_sends(
            store_host=addresses.store_host,
            cluster=self._settings.broker_cluster_name,
            common_ext=send.common_ext,
            diverting=intake.diverting,
            wait_matters=not durability.is_immediate,
            has_index=self._store_settings.message_index_enable,
            body_bytes_max=self._store_settings.max_message_size,
        )
        if sends is None:
            return None
        fast = FastSends(
            sends,
            store=self._store,
            topics=self._topics,
            arrivals=self._arrivals,
            durability=durability,
            common_ext=send.common_ext,
            requests_under_way_max=self._net_settings.requests_under_way_max,
            clock=self._clock,
        )
        send.learn = fast.learn
        return fast

    def _fast_pulls(self, pull: PullHandlers) -> FastPulls | None:
        # Whether a slave is suggested depends on what was read.
        if not self._use_kernel or self._settings.slave_read_enable:
            return None
        fast = FastPulls(
            make_pulls(self._store_settings, broker_id=MASTER_ID),
            store=self._store,
            topics=self._topics,
            groups=self._groups,
            consumers=self._consumers,
            offsets=self._offsets,
        )
        pull.learn = fast.learn
        return fast

    def _admission(self, addresses: BrokerAddresses) -> Admission:
        return Admission(self._topics, self._settings, self._clock, broker_ip=addresses.ip)

    def _retry_handlers(
        self, intake: Intake, durability: Durability, addresses: BrokerAddresses
    ) -> RetryHandlers:
        return RetryHandlers(
            store=self._store,
            intake=intake,
            topics=self._topics,
            groups=self._groups,
            durability=durability,
            settings=self._settings,
            broker_ip=addresses.ip,
        )

    def _transaction_handlers(
        self, intake: Intake, durability: Durability, addresses: BrokerAddresses
    ) -> TransactionHandlers:
        return TransactionHandlers(
            store=self._store,
            intake=intake,
            halves=self._halves,
            durability=durability,
            clock=self._clock,
            role=self._settings.broker_role,
            store_host=addresses.store_host,
        )

    def _timer_handlers(self, durability: Durability) -> TimerHandlers:
        return TimerHandlers(
            self._timers,
            store=self._store,
            topics=self._topics,
            durability=durability,
            settings=self._settings,
        )

    def _transaction_checks(self, intake: Intake, durability: Durability) -> TransactionChecks:
        return TransactionChecks(
            halves=self._halves,
            store=self._store,
            intake=intake,
            offsets=self._offsets,
            topics=self._topics,
            producers=self._producers,
            durability=durability,
            settings=self._settings,
            kept_hours=self._store_settings.file_reserved_time,
            clock=self._clock,
        )

    def _reply_handlers(self, intake: Intake, addresses: BrokerAddresses) -> ReplyHandlers:
        return ReplyHandlers(
            admission=self._admission(addresses),
            topics=self._topics,
            producers=self._producers,
            intake=intake,
            settings=self._settings,
            clock=self._clock,
            store_address=addresses.advertised,
            store_host=addresses.store_host,
        )

    def _pull_handlers(self, intake: Intake, addresses: BrokerAddresses) -> PullHandlers:
        return PullHandlers(
            store=self._store,
            topics=self._topics,
            groups=self._groups,
            consumers=self._consumers,
            filters=self._filters,
            offsets=self._offsets,
            arrivals=self._arrivals,
            offset_events=OffsetEvents(
                intake,
                self._clock,
                broker_name=self._settings.broker_name,
                store_host=addresses.store_host,
            ),
            conflicts=self._conflicts,
            settings=self._settings,
            clock=self._clock,
            broker_ip=addresses.ip,
        )

    def _admin_handlers(self, registration: Registration) -> AdminHandlers:
        return AdminHandlers(
            topics=self._topics,
            groups=self._groups,
            offsets=self._offsets,
            delayed=self._delayed,
            consumers=self._consumers,
            conflicts=self._conflicts,
            producers=self._producers,
            store=self._store,
            registration=registration,
            broker_name=self._settings.broker_name,
        )

    def _relay_handlers(self) -> RelayHandlers:
        return RelayHandlers(
            consumers=self._consumers,
            topics=self._topics,
            offsets=self._offsets,
            store=self._store,
            broker_name=self._settings.broker_name,
        )

    async def _listen_vip(self, server: Server, port: int) -> None:
        vip_port = port - VIP_PORT_BELOW
        if vip_port < 1:
            return
        try:
            await server.start(self._settings.bind_address, vip_port)
        except ListenFailed as error:
            log.warning("%s; clients with vipChannelEnabled cannot connect", error)

    def _run_jobs(self, durability: Durability, registration: Registration) -> None:
        settings = self._settings
        jobs = self._background
        self._closing.push_async_callback(jobs.close)
        jobs.every(
            "register",
            registration.period_ms / 1000,
            registration.register,
            first_s=FIRST_PERIOD_MS / 1000,
        )
        jobs.every(
            "sync the log", self._store_settings.flush_interval_commit_log / 1000, durability.sync_if_due
        )
        jobs.every(
            "sync the queues",
            self._store_settings.flush_interval_consume_queue / 1000,
            durability.sync_queues_if_due,
        )
        sweep_s = (
            HELD_PULLS_SWEEP_S if settings.long_polling_enable else settings.short_polling_time_mills / 1000
        )
        jobs.every(
            "let old files go", self._store_settings.clean_resource_interval / 1000, self._let_old_files_go
        )
        jobs.every("sweep held pulls", sweep_s, self._arrivals.sweep)
        jobs.every("look at subscriptions", SUBSCRIPTIONS_LOOK_S, self._conflicts.look)
        jobs.every("save progress", settings.flush_consumer_offset_interval / 1000, self._offsets.save)
        jobs.every(
            "drop silent clients",
            SILENT_CLIENTS_SWEEP_S,
            lambda: self._presence.drop_silent(settings.channel_expired_timeout),
        )

    def _run_deliveries(self, durability: Durability, checks: TransactionChecks) -> None:
        """Begin what a master does on its own with messages that wait."""
        self._delayed.start()
        self._closing.callback(self._delayed.stop)
        self._timers.start(durability)
        self._closing.callback(self._timers.stop)
        self._background.every("write down what waits", TIMERS_WRITE_S, self._timers.nudge)
        self._background.every(
            "save the delay levels' progress",
            self._store_settings.flush_delay_offset_interval / 1000,
            lambda: self._delayed.save(durability),
        )
        self._background.every(
            "check transactions", self._settings.transaction_check_interval / 1000, checks.check
        )

    async def _serve_metrics(self, server: Server) -> None:
        sources = Sources(
            consumers=self._consumers,
            producers=self._producers,
            conflicts=self._conflicts,
            arrivals=self._arrivals,
            store=self._store,
            count_links=lambda: len(server.links),
        )
        self.metrics = await start_metrics(self._settings, sources)
        if self.metrics is not None:
            self._closing.push_async_callback(self.metrics.close)

    async def _let_old_files_go(self) -> None:
        self._swept.append(self._store.sweep())
        while self._swept:
            # What cannot be removed now is tried again at the next look, and before what came after it.
            await asyncio.to_thread(self._swept[0].remove)
            del self._swept[0]

    def _link_closed(self, link: Link) -> None:
        self._presence.link_closed(link)

    async def _save_tables(self, durability: Durability) -> None:
        """Save what can be saved: one table that cannot be written is no reason to lose the others."""
        saves: tuple[Callable[[], Awaitable[None]], ...] = (
            lambda: self._delayed.save(durability),
            self._offsets.save,
            self._filters.save,
            self._topics.save,
            self._groups.save,
        )
        for save in saves:
            try:
                await save()
            except (StoreError, ServiceNotAvailable) as error:
                log.warning("what changed since the last write is lost with this stop: %s", error)
