"""Starts the parts of a broker, and stops them in the reverse order, whether the start succeeded or not.

    links ── registration ──► name servers
    server ─► routes ─► handlers ─► tables (topics, groups, offsets) and clients
                            └─────► intake ─► store ─► arrivals ─► held pulls
                                                └────► durability

What it is made of is built in `parts.py`, what answers clients in `answering.py`. All lives on one loop.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pyromq.broker.acl import control as access_control
from pyromq.broker.acl.control import AccessControl
from pyromq.broker.acl.wiring import make_access_control, own_signer
from pyromq.broker.addresses import BrokerAddresses, advertise, settle_addresses
from pyromq.broker.announcements import Announcements
from pyromq.broker.answering import fill_routes
from pyromq.broker.delay import delay_diversion
from pyromq.broker.durability import Durability
from pyromq.broker.file_removal import FileRemoval
from pyromq.broker.half_messages import half_diversion
from pyromq.broker.intake import Intake
from pyromq.broker.joining import Neighbours
from pyromq.broker.metrics import Observed, are_wanted, start_metrics
from pyromq.broker.name_servers import NameServers
from pyromq.broker.parts import Parts, make_parts
from pyromq.broker.refusals import LOOK_S as REFUSALS_LOOK_S
from pyromq.broker.refusals import watch_refusals
from pyromq.broker.registration import FIRST_PERIOD_MS, Registration
from pyromq.broker.replicating import Following, Leading, Replicating, load_epochs
from pyromq.broker.replication.adoption import adopt_delivered, adopt_topics, forget_beyond
from pyromq.broker.replication.divergence import last_record_position
from pyromq.broker.route_facts import BrokerTable
from pyromq.broker.standing import Standing
from pyromq.broker.stats import SAMPLE_S
from pyromq.broker.timers.timed import timer_diversions
from pyromq.broker.transaction_checks import TransactionChecks
from pyromq.clock import Clock, SystemClock
from pyromq.config.choices import BrokerRole
from pyromq.config.settings import BrokerProcess, BrokerSettings
from pyromq.episodes import Episodes
from pyromq.errors import ListenFailed, PyroError
from pyromq.kernel import IS_COMPILED
from pyromq.net.discovery import FIRST_REFRESH_MS
from pyromq.net.link import Link
from pyromq.net.links import Links
from pyromq.net.metrics import MetricsPage
from pyromq.net.routes import Route
from pyromq.net.server import Server
from pyromq.store.files import Files
from pyromq.store.follower import StoreFile
from pyromq.system_names import SCHEDULE, WHEEL_TIMER
from pyromq.wire import properties as names

log = logging.getLogger(__name__)

HELD_PULLS_SWEEP_S = 5.0
TIMERS_WRITE_S = 1.0
#: Seconds that the name servers have before a replica goes on; they are told again soon.
ELECTED_REGISTRATION_S = 0.5
SILENT_CLIENTS_SWEEP_S = 10.0
SUBSCRIPTIONS_LOOK_S = 1.0
#: `osPageCacheBusyTimeOutMills` is not less.
SLOW_WRITE_S_MIN = 0.001
#: Clients with `vipChannelEnabled` send to the broker's port minus this.
VIP_PORT_BELOW = 2


class Broker:
    """One broker of one process. `start` it, `close` it; it is not started twice.

    `files` is where it keeps everything, by default the machine's file system. `use_kernel` lets the compiled
    kernel handle what it can, by default where there is one. `standing` is its place in its group when that
    is not just what the settings say; `on_diverged` is told where a slave's log parts from its master's, and
    `more_routes` are requests that are answered besides.
    """

    def __init__(
        self,
        process: BrokerProcess,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        use_kernel: bool = IS_COMPILED,
        standing: Standing | None = None,
        on_diverged: Callable[[int | None], None] | None = None,
        more_routes: Sequence[Route[Any]] = (),
    ) -> None:
        self._on_diverged = on_diverged or (lambda _position: None)
        self._more_routes = more_routes
        self._standing = standing or Standing()
        self._files = files
        process = replace(process, broker=settle_addresses(process.broker))
        self._parts = make_parts(process, clock=clock or SystemClock(), files=files, use_kernel=use_kernel)
        self._name_servers = NameServers(self._parts.settings)
        self._announcements = Announcements(self._parts.store, self._parts.arrivals)
        #: What it does as one of several replicas; known once the broker is started.
        self.replicating: Replicating | None = None
        #: What is observed for metrics; without them, nothing.
        self._observed = Observed() if are_wanted(process.broker) else None
        #: Where metrics are served, if they are.
        self.metrics: MetricsPage | None = None
        self._table = BrokerTable(())
        self._access = make_access_control(self._parts, self._table)
        #: Called for each message that was stored, when the disk is to have it at once.
        self._sync_soon: Callable[[], None] | None = None
        self._log_files = FileRemoval(
            self._parts.clock,
            lambda _file, _next: self._parts.store_settings.delete_commit_log_files_interval,
        )
        self._queue_files = FileRemoval(self._parts.clock, self._pause_between_queues_ms)
        self._addresses: BrokerAddresses | None = None
        self._is_leaving = True
        #: Why clients are refused, while the broker runs.
        self._episodes: Episodes | None = None
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
    def ha_address(self) -> str:
        """Where it says that slaves may connect."""
        assert self._addresses is not None
        return self._addresses.ha

    @property
    def registers_with(self) -> tuple[str, ...]:
        """The name servers that it registers with, as they are now."""
        return self._name_servers.addresses

    @property
    def max_position(self) -> int:
        """Where the log ends."""
        return self._parts.store.max_position

    def commit(self) -> None:
        """Write what is in a write buffer to the log's file, so that slaves get it. Raises StoreError."""
        self._parts.store.commit()

    @property
    def ailment(self) -> str | None:
        """Why it takes no messages until it is started again, None if it is well."""
        return self._parts.store.ailment

    @property
    def has_room(self) -> bool:
        """Whether its disk has room for messages; it may have some again without a restart."""
        return self._parts.store.is_writable or self.ailment is not None

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

    async def close(self, *, unregister: bool = True) -> None:
        """Stop in order: answer what is held, leave the name servers, save the tables, close the store.

        Who is master no more must not `unregister`: by its name, the name servers know the next one.
        """
        self._is_leaving = unregister
        if self._episodes is None:
            await self._closing.aclose()
            return
        name, causes = self._parts.settings.broker_name, self._episodes.causes
        self._episodes, self._table.on_refused = None, None
        log.info("%s refuses all requests: it stops", name)
        await self._closing.aclose()
        lasting = "".join(f"; it refused clients until then: {cause}" for cause in causes)
        log.info("%s has stopped%s", name, lasting)

    async def _start(self) -> None:
        parts = self._parts
        closing = self._closing
        closing.push_async_callback(asyncio.to_thread, parts.store.close)
        await asyncio.to_thread(self._open)
        # What a crash took back is so on disk before the next message takes its place.
        await parts.offsets.save()
        await parts.topics.save()
        await parts.live.save()
        replicating = self.replicating = self._make_replicating()
        durability = Durability(
            parts.store,
            parts.store_settings,
            parts.clock,
            elsewhere=replicating.elsewhere,
            lease=self._standing.lease,
        )
        closing.callback(durability.close)
        if durability.syncs_all:
            self._sync_soon = durability.appended
        if isinstance(replicating, Leading):
            replicating.show_what_is_flushed(durability)
            replicating.show_what_is_committed()
        closing.push_async_callback(self._save_tables, durability)
        closing.push_async_callback(parts.timers.close)

        server = Server(
            self._table,
            parts.net_settings,
            clock=parts.clock,
            name=parts.settings.broker_name,
            on_link_closed=self._link_closed,
            may_leave=self._standing.lease.may_leave,
        )
        port = parts.settings.listen_port
        if port:
            # The routes stand before the first client can come.
            registration, checks = await self._wire(server, durability, port)
        closing.push_async_callback(server.close)
        closing.callback(parts.arrivals.wake_all)
        _, real_port = await server.start(parts.settings.bind_address, port)
        if port:
            await self._listen_vip(server, port)
        else:
            # Nobody knows a port yet that the system chose just now.
            registration, checks = await self._wire(server, durability, real_port)
        closing.push_async_callback(self._leave, registration)
        await self._unless_elected(registration.register)
        parts.topics.on_change = registration.register_soon
        registration.on_new_topics = parts.topic_news.tell
        closing.callback(parts.topic_news.close)
        self._run_jobs(durability, registration)
        self._watch_refusals(durability, replicating)
        await self._serve_metrics(server)
        if isinstance(replicating, Following):
            replicating.start()
        else:
            self._run_deliveries(durability, checks)

    def _watch_refusals(self, durability: Durability, replicating: Replicating) -> None:
        """Log when clients begin to be refused, and when that ends; a stop tells what lasted until then."""
        episodes = self._episodes = watch_refusals(self._parts, durability, replicating)
        self._table.on_refused = self._parts.busy.on_begin = episodes.look
        self._parts.background.every("look for refusals", REFUSALS_LOOK_S, episodes.look)
        episodes.look()

    def _open(self) -> None:
        parts, cut_at = self._parts, self._standing.cut_at
        if self._access is not None:
            self._access.load()
        parts.store.on_append = self._appended
        parts.store.on_grown = self._announcements.grew
        if cut_at is not None:
            forget_beyond(Path(parts.store_settings.store_path_root_dir), cut_at, files=self._files)
        recovered = parts.store.open(cut_at=cut_at)
        parts.topics.load()
        parts.groups.load()
        parts.offsets.load()
        parts.queue_locks.load()
        parts.filters.load()
        parts.delayed.load()
        parts.stats.start()
        if self._is_slave:
            return
        parts.staged.load()
        # It may have been a slave: copying ends anywhere, and progress came from a master that had more.
        adopt_topics(parts.store, parts.topics)
        is_sure = recovered.was_clean and not parts.settings.failover
        parts.offsets.keep_within(self._end_of_messages if is_sure else parts.store.max_offset)
        parts.halves.load(last_record_position(parts.store))

    def _end_of_messages(self, topic: str, queue_id: int) -> int:
        """Return where a queue ends; one that never had a message, and may have been removed, has no end."""
        return self._parts.store.max_offset(topic, queue_id) or sys.maxsize

    def _appended(self, topic: str, queue_id: int, end: int, tags_code: int) -> None:
        parts = self._parts
        self._announcements.stored(topic, queue_id, end, tags_code)
        if self._is_slave:
            if topic not in parts.topics.configs and isinstance(self.replicating, Following):
                self.replicating.copied(topic)
            return
        if topic == SCHEDULE:
            parts.delayed.arrived(queue_id, tags_code)
        elif topic == WHEEL_TIMER:
            parts.timers.arrived(end, tags_code)
        elif topic not in parts.topics.configs:
            adopt_delivered(topic, queue_id, parts.topics)
        self._log_grew()

    def _log_grew(self) -> None:
        write_s = self._parts.store.log.write_s
        if write_s >= SLOW_WRITE_S_MIN:
            self._parts.busy.wrote(write_s)
        if self._sync_soon is not None:
            self._sync_soon()
        if self.replicating is not None:
            self.replicating.appended()

    @property
    def _is_slave(self) -> bool:
        return self._parts.settings.broker_role == BrokerRole.SLAVE

    def _make_replicating(self) -> Replicating:
        parts, standing = self._parts, self._standing
        epochs = load_epochs(parts, standing, self._files)
        make = Following if self._is_slave else Leading
        replicating = make(parts, standing, self._announcements, epochs)
        if self._access is not None and isinstance(replicating, Leading):
            replicating.only_for(self._access.may_copy)
        self._closing.push_async_callback(replicating.close)
        return replicating

    async def _unless_elected(self, tell: Callable[[], Awaitable[None]]) -> None:
        """Wait for others; but a new master is waited for, and one that is gone must not hold it up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ELECTED_REGISTRATION_S if self._parts.settings.failover else None):
                await tell()

    async def _leave(self, registration: Registration) -> None:
        if self._is_leaving:
            await registration.unregister()

    async def _wire(
        self, server: Server, durability: Durability, port: int
    ) -> tuple[Registration, TransactionChecks]:
        """Build what needs the broker's addresses, and fill the table of routes."""
        parts = self._parts
        settings = parts.settings
        replicating = self.replicating
        assert replicating is not None
        ha_port = await replicating.listen(port)
        addresses = self._addresses = await advertise(settings, port, ha_port)
        links = Links(
            parts.net_settings, clock=parts.clock, name=settings.broker_name, sign=own_signer(settings)
        )
        self._closing.push_async_callback(links.close)
        self._closing.push_async_callback(self._name_servers.close)
        await self._unless_elected(self._name_servers.refresh)
        neighbours = Neighbours(links, settings, self._name_servers)
        self._closing.push_async_callback(neighbours.close)
        parts.topics.on_inherited = neighbours.spread
        await neighbours.join(parts.topics, parts.groups)
        registration = Registration(
            links,
            parts.topics,
            settings,
            name_servers=self._name_servers,
            address=addresses.advertised,
            ha_address=addresses.ha,
            lease=self._standing.lease,
        )
        self._name_servers.on_change = registration.register_soon
        committed_here = None
        if isinstance(replicating, Following):
            replicating.find_leader = lambda: registration.leader
            replicating.on_diverged = self._on_diverged
            committed_here = replicating.prepare(links, durability).committed_here
        intake = Intake(
            parts.store,
            message_bytes_max=parts.store_settings.max_message_size,
            diversions={
                names.TRANSACTION_PREPARED: half_diversion(settings, broker_ip=addresses.ip),
                **timer_diversions(parts.store_settings, parts.clock.now_ms),
                names.DELAY: delay_diversion(parts.store.delays_ms),
            },
        )
        await fill_routes(
            parts,
            self._table,
            server,
            intake=intake,
            durability=durability,
            addresses=addresses,
            registration=registration,
            announcements=self._announcements,
            access=self._access,
            committed_here=committed_here,
            log_grew=self._log_grew,
            let_files_go=partial(self._let_old_files_go, at_any_hour=True),
            closing=self._closing,
            times=None if self._observed is None else self._observed.requests,
        )
        self._table.add(self._more_routes)
        self._table.pressure = parts.busy
        if self._observed is not None:
            self._observed.watch(durability, parts)
            self._observed.requests.time_routes(self._table)
        replicating.guard(self._table)
        if isinstance(replicating, Leading):
            server.shortcut = replicating.gate.around(server.shortcut)
        return registration, _transaction_checks(parts, intake, durability, self._access)

    async def _listen_vip(self, server: Server, port: int) -> None:
        vip_port = port - VIP_PORT_BELOW
        if vip_port < 1:
            return
        try:
            await server.start(self._parts.settings.bind_address, vip_port)
        except ListenFailed as error:
            log.warning("%s; clients with vipChannelEnabled cannot connect", error)

    def _run_jobs(self, durability: Durability, registration: Registration) -> None:
        parts = self._parts
        settings, jobs = parts.settings, parts.background
        self._closing.push_async_callback(jobs.close)
        jobs.every(
            "register",
            registration.period_ms / 1000,
            registration.register,
            first_s=FIRST_PERIOD_MS / 1000,
        )
        jobs.every(
            "ask for the name servers",
            lambda: self._name_servers.pause_s,
            self._name_servers.refresh,
            first_s=FIRST_REFRESH_MS / 1000,
        )
        jobs.every(
            "sync the log",
            parts.store_settings.flush_interval_commit_log / 1000,
            durability.sync_if_due,
        )
        if parts.store.is_buffered:
            jobs.every(
                "commit the log",
                parts.store_settings.commit_interval_commit_log / 1000,
                durability.commit_if_due,
            )
        jobs.every(
            "sync the queues",
            parts.store_settings.flush_interval_consume_queue / 1000,
            durability.sync_queues_if_due,
        )
        jobs.every(
            "let old files go",
            parts.store_settings.clean_resource_interval / 1000,
            self._let_old_files_go,
        )
        # What cannot be removed now is tried again at the next look, and before what came after it.
        look_s = parts.store_settings.clean_resource_interval / 1000
        jobs.every("remove old log files", look_s, self._log_files.run, first_s=0)
        jobs.every("remove old queue files", look_s, self._queue_files.run, first_s=0)
        jobs.every("sweep held pulls", partial(_sweep_s, settings), parts.arrivals.sweep)
        if self._access is not None:
            jobs.every("look at the accounts", access_control.LOOK_S, self._access.look)
        jobs.every("count messages", SAMPLE_S, parts.stats.sample)
        jobs.every("look at subscriptions", SUBSCRIPTIONS_LOOK_S, parts.conflicts.look)
        jobs.every("save progress", settings.flush_consumer_offset_interval / 1000, parts.offsets.save)
        jobs.every(
            "drop silent clients",
            SILENT_CLIENTS_SWEEP_S,
            lambda: parts.presence.drop_silent(settings.channel_expired_timeout),
        )

    def _run_deliveries(self, durability: Durability, checks: TransactionChecks) -> None:
        """Begin what a master does on its own with messages that wait."""
        parts = self._parts
        parts.delayed.start()
        self._closing.callback(parts.delayed.stop)
        parts.timers.start(durability)
        self._closing.callback(parts.timers.stop)
        parts.background.every("write down what waits", TIMERS_WRITE_S, parts.timers.nudge)
        parts.background.every(
            "save the delay levels' progress",
            parts.store_settings.flush_delay_offset_interval / 1000,
            lambda: parts.delayed.save(durability),
        )
        parts.background.every(
            "check transactions", parts.settings.transaction_check_interval / 1000, checks.check
        )

    async def _serve_metrics(self, server: Server) -> None:
        if self._observed is None:
            return
        more = () if self.replicating is None else self.replicating.figures()
        self.metrics = await start_metrics(self._parts, server, self._observed, more)
        self._closing.push_async_callback(self.metrics.close)

    def _let_old_files_go(self, *, at_any_hour: bool = False) -> None:
        swept = self._parts.store.sweep(at_any_hour=at_any_hour)
        log_files, queue_files = swept.files[: swept.log_count], swept.files[swept.log_count :]
        self._log_files.add(swept, log_files, then=lambda: self._queue_files.add(swept, queue_files))

    def _pause_between_queues_ms(self, file: StoreFile, following: StoreFile) -> int:
        is_same_queue = file.path.parent == following.path.parent
        return 0 if is_same_queue else self._parts.store_settings.delete_consume_queue_files_interval

    def _link_closed(self, link: Link) -> None:
        self._parts.presence.link_closed(link)

    async def _save_tables(self, durability: Durability) -> None:
        """Save what can be saved: one table that cannot be written is no reason to lose the others."""
        parts = self._parts
        saves: dict[str, Callable[[], Awaitable[None]]] = {
            "topics": parts.topics.save,
            "groups": parts.groups.save,
            "consumers' progress": parts.offsets.save,
            "filters": parts.filters.save,
            "queue locks": parts.queue_locks.save,
            "the delay levels' progress": lambda: parts.delayed.save(durability),
        }
        for name, save in saves.items():
            try:
                await save()
            except PyroError as error:
                log.warning("what changed in %s since the last write is lost with this stop: %s", name, error)
            except Exception:
                log.exception("what changed in %s since the last write is lost with this stop", name)


def _sweep_s(settings: BrokerSettings) -> float:
    """Return after how long it is looked for held pulls whose time is up; the settings may change."""
    return HELD_PULLS_SWEEP_S if settings.long_polling_enable else settings.short_polling_time_mills / 1000


def _transaction_checks(
    parts: Parts, intake: Intake, durability: Durability, access: AccessControl | None
) -> TransactionChecks:
    return TransactionChecks(
        halves=parts.halves,
        store=parts.store,
        intake=intake,
        offsets=parts.offsets,
        topics=parts.topics,
        producers=parts.producers,
        durability=durability,
        settings=parts.settings,
        store_settings=parts.store_settings,
        clock=parts.clock,
        may_publish=(lambda _caller, _topic: True) if access is None else access.may_publish,
    )
