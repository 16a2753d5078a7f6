"""Builds the handlers of a broker from the doors of its rooms, and adds their routes to the table.

`HandlerTable` has the doors that most handlers need. Each of its methods adds the handlers of one room, and
takes the further doors that only these need. `broker_routes.py` lists the routes themselves.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from pyromq.broker.delivery.arrivals import Announcements
from pyromq.broker.delivery.pull_delivery import PullDelivery
from pyromq.broker.delivery.pull_shortcut import FastPulls, make_pulls
from pyromq.broker.delivery.sql_filters import FilterTable
from pyromq.broker.durability.write_path import WritePath
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.groups.offset_shortcut import FastOffsets, make_offsets
from pyromq.broker.kinds.delay import DelayedMessages
from pyromq.broker.kinds.deliveries import QueueTeacher, make_deliveries
from pyromq.broker.kinds.kinds import Kinds
from pyromq.broker.kinds.staging.staging_wiring import make_staging
from pyromq.broker.live_settings import BrokerLiveSettings
from pyromq.broker.metrics.metrics_room import BrokerMetrics
from pyromq.broker.metrics.runtime import RuntimeTable
from pyromq.broker.pop.pop_door import Pop
from pyromq.broker.registration import Registration
from pyromq.broker.replication.committed_here import CommittedHere
from pyromq.broker.requests.ack_shortcut import FastAcks, make_acks
from pyromq.broker.requests.broker_routes import (
    access_routes,
    admin_routes,
    assignment_routes,
    group_routes,
    kind_routes,
    operation_routes,
    pop_routes,
    pull_routes,
    query_routes,
    replica_routes,
    send_routes,
    staging_routes,
    timer_routes,
)
from pyromq.broker.requests.busy import Busy
from pyromq.broker.requests.end_shortcut import fast_ends
from pyromq.broker.requests.handlers.access_handlers import AccessHandlers
from pyromq.broker.requests.handlers.admin_handlers import AdminHandlers
from pyromq.broker.requests.handlers.assignment_handlers import AssignmentHandlers
from pyromq.broker.requests.handlers.configuration_handlers import ConfigurationHandlers, ResumeHandlers
from pyromq.broker.requests.handlers.operation_handlers import OperationHandlers
from pyromq.broker.requests.handlers.pop_ack_handlers import PopAckHandlers
from pyromq.broker.requests.handlers.pop_checks import PopChecks
from pyromq.broker.requests.handlers.pop_handlers import PopHandlers
from pyromq.broker.requests.handlers.presence_handlers import PresenceHandlers
from pyromq.broker.requests.handlers.progress_handlers import ProgressHandlers
from pyromq.broker.requests.handlers.pull_handlers import PullHandlers
from pyromq.broker.requests.handlers.query_handlers import QueryHandlers
from pyromq.broker.requests.handlers.relay_handlers import RelayHandlers
from pyromq.broker.requests.handlers.reply_handlers import ReplyHandlers
from pyromq.broker.requests.handlers.retry_handlers import RetryHandlers
from pyromq.broker.requests.handlers.send_handlers import SendHandlers
from pyromq.broker.requests.handlers.statistics_handlers import StatisticsHandlers
from pyromq.broker.requests.handlers.timer_handlers import TimerHandlers
from pyromq.broker.requests.handlers.transaction_handlers import TransactionHandlers
from pyromq.broker.requests.route_facts import BrokerTable
from pyromq.broker.requests.send_back_shortcut import fast_send_backs
from pyromq.broker.requests.send_shortcut import FastSends, make_sends
from pyromq.broker.topics.topic_routes import TopicRoutes
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import RequestCode
from pyromq.config.choices import BrokerRole
from pyromq.net.link import Link
from pyromq.net.turn import Shortcut, Turn
from pyromq.store.store import MessageStore
from pyromq.wire.record import HOST_BYTES_V4

if TYPE_CHECKING:
    from pyromq._kernel.requests.again_frames import AgainFrames
    from pyromq._kernel.requests.signatures import Signatures
    from pyromq.broker.access.control import AccessControl
    from pyromq.broker.access.signed_shortcut import FastSignatures
    from pyromq.net.latency import RequestTimes

#: The codes that each shortcut handles.
_SENDS: Final = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
_PULLS: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
_OFFSETS: Final = (RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET)


class HandlerTable:
    """The handlers of one broker."""

    def __init__(
        self,
        table: BrokerTable,
        live: BrokerLiveSettings,
        clock: Clock,
        *,
        store: MessageStore,
        topics: TopicTable,
        groups: Groups,
        write: WritePath,
    ) -> None:
        self._table = table
        self._live = live
        self._settings = live.now
        self._clock = clock
        self._store = store
        self._topics = topics
        self._groups = groups
        self._write = write
        #: What the kernel plans beside plain sends.
        self._others: list[AgainFrames] = []
        self._access: AccessControl | None = None
        self._signed: FastSignatures | None = None
        #: The handlers of acknowledgements, for their shortcut.
        self._acks: PopAckHandlers | None = None

    @property
    def _is_slave(self) -> bool:
        return self._settings.broker.broker_role == BrokerRole.SLAVE

    def add_sends(self) -> SendHandlers:
        """Add the handlers of plain sends, and return them for the shortcut."""
        send = SendHandlers(
            self._write, topics=self._topics, groups=self._groups.table, settings=self._settings.broker
        )
        self._table.add(send_routes(send))
        return send

    def add_pulls(self, delivery: PullDelivery, turn: Turn) -> PullHandlers:
        """Add the handlers of pulls and queries, and return those of pulls for the shortcut."""
        pull = PullHandlers(
            store=self._store,
            topics=self._topics,
            groups=self._groups,
            delivery=delivery,
            write=self._write,
            settings=self._settings.broker,
            clock=self._clock,
            turn=turn,
        )
        self._table.add(pull_routes(pull))
        query = QueryHandlers(self._store, unique_count_max=self._settings.store.default_query_max_num)
        self._table.add(query_routes(query))
        return pull

    def add_kinds(self, kinds: Kinds, announcements: Announcements, *, use_kernel: bool) -> None:
        """Add the handlers of retries, transactions, replies, timers and staged sends."""
        write, store, topics, clock = self._write, self._store, self._topics, self._clock
        settings = self._settings.broker
        retry = RetryHandlers(write, store=store, topics=topics, groups=self._groups.table, settings=settings)
        transaction = TransactionHandlers(
            write, store=store, halves=kinds.halves, clock=clock, role=settings.broker_role
        )
        reply = ReplyHandlers(
            write, topics=topics, producers=self._groups.producers, settings=settings, clock=clock
        )
        self._table.add(kind_routes(retry, transaction, reply))
        if use_kernel and not self._is_slave and len(write.addresses.store_host) == HOST_BYTES_V4:
            self._store_again(kinds, announcements, transaction, retry)
        timers = TimerHandlers(
            kinds.timers, store=store, topics=topics, durability=write.durability, settings=settings
        )
        self._table.add(timer_routes(timers))
        staging = None
        if not self._is_slave:
            staging = make_staging(
                kinds.staged,
                write,
                store=store,
                topics=topics,
                announcements=announcements,
                settings=settings,
                clock=clock,
                use_kernel=use_kernel,
            )
        self._table.add(staging_routes(staging))

    def _store_again(
        self,
        kinds: Kinds,
        announcements: Announcements,
        transaction: TransactionHandlers,
        retry: RetryHandlers,
    ) -> None:
        """Let the kernel store records of the log again, as the handlers and kinds teach it."""
        write, store = self._write, self._store
        teacher = QueueTeacher(store, self._topics, announcements)
        deliveries = make_deliveries(store, teacher, announcements, self._clock)
        kinds.delayed.deliveries = deliveries
        kinds.timers.deliver_with(deliveries)
        ends = fast_ends(kinds.halves, write, store)
        transaction.learn = partial(teacher.teach, ends)
        self._others.append(ends)
        for plain in kinds.delayed.plain_diversions():
            fast, send_backs = fast_send_backs(store, self._groups.table, plain, write.intake.diverting)
            retry.learn = fast.learn
            self._others.append(send_backs)

    def add_groups(
        self, presence: PresenceHandlers, committed_here: CommittedHere | None
    ) -> ProgressHandlers:
        """Add the handlers of group members, progress and queue locks; return progress's for the shortcut."""
        progress = ProgressHandlers(self._store, self._groups, self._write.durability, committed_here)
        self._table.add(group_routes(progress, presence))
        return progress

    def add_pops(self, pop: Pop, delivery: PullDelivery, metrics: BrokerMetrics) -> None:
        """Add the handlers of messages that are popped and acknowledged one by one."""
        name = self._settings.broker.broker_name
        checks = PopChecks(
            self._store,
            self._topics,
            self._groups,
            self._settings.broker,
            broker_ip=self._write.addresses.ip,
        )
        pops = PopHandlers(
            pop,
            self._store,
            self._groups.offsets,
            self._clock,
            filters=delivery.filters,
            checks=checks,
            broker_name=name,
        )
        pops.on_read = metrics.stats.pulled
        acks = self._acks = PopAckHandlers(pop, self._groups.offsets, checks, broker_name=name)
        self._table.add(pop_routes(pops, acks))

    def add_assignments(self, routes: TopicRoutes) -> None:
        """Add the handlers of members that ask for their share of queues."""
        assignment = AssignmentHandlers(
            topics=self._topics, groups=self._groups, routes=routes, settings=self._settings.pop
        )
        self._table.add(assignment_routes(assignment))

    def add_operators(
        self,
        registration: Registration,
        metrics: BrokerMetrics,
        busy: Busy,
        *,
        filters: FilterTable,
        delayed: DelayedMessages,
        let_files_go: Callable[[], None],
        pop: Pop,
    ) -> None:
        """Add the handlers of operators: topics, groups, settings, statistics, and requests to consumers."""
        store, topics, groups, settings = self._store, self._topics, self._groups, self._settings.broker
        write, stats = self._write, metrics.stats
        admin = AdminHandlers(
            topics=topics,
            groups=groups,
            delayed=delayed,
            store=store,
            registration=registration,
            broker_name=settings.broker_name,
        )
        relay = RelayHandlers(
            topics=topics, groups=groups, store=store, broker_name=settings.broker_name, pop=pop
        )
        self._table.add(admin_routes(admin, relay))
        operations = OperationHandlers(
            topics=topics,
            groups=groups,
            store=store,
            stats=stats,
            durability=write.durability,
            registration=registration,
            let_files_go=let_files_go,
            pop=pop,
        )
        statistics = StatisticsHandlers(
            topics=topics,
            groups=groups,
            filters=filters,
            store=store,
            stats=stats,
            runtime=RuntimeTable(store, stats, busy, settings, lambda: delayed.progress),
            settings=settings,
            address=write.addresses.advertised,
        )
        configuration = ConfigurationHandlers(self._live, topics=topics, registration=registration)
        resume = ResumeHandlers(write, store)
        self._table.add(operation_routes(operations, statistics, configuration, resume))
        if not settings.failover:
            self._table.add(replica_routes(None))

    def add_access(self, access: "AccessControl | None") -> None:
        """Add the handlers of accounts."""
        self._access = access
        settings = self._settings.broker
        handlers = AccessHandlers(
            access,
            address=self._write.addresses.advertised,
            broker_name=settings.broker_name,
            cluster_name=settings.broker_cluster_name,
        )
        self._table.add(access_routes(handlers))

    # The kernel's shortcuts around the table

    def shortcut(
        self,
        send: SendHandlers,
        pull: PullHandlers,
        progress: ProgressHandlers,
        *,
        delivery: PullDelivery,
        metrics: BrokerMetrics,
        busy: Busy,
        use_kernel: bool,
    ) -> Shortcut | None:
        """Return the shortcut for plain sends, pulls and progress, and for the refusal of sends."""
        if use_kernel:
            # Only now: without a compiler there is nothing to import.
            from pyromq._kernel.requests.refusals import refuse_sends

            busy.refuse_quickly = refuse_sends
        pull.on_read = metrics.stats.pulled
        is_usable = use_kernel and not self._is_slave
        signed = self._signed = self._fast_signatures() if use_kernel else None
        sends = self._fast_sends(send, delivery, busy) if is_usable else None
        pulls = self._fast_pulls(pull, delivery, metrics) if use_kernel else None
        offsets = self._fast_offsets(progress) if use_kernel else None
        acks = self._fast_acks(self._acks) if is_usable and self._acks is not None else None
        shortcut = self._write.durability.shortcut(
            _observed(sends, metrics.request_times, RequestCode.SEND_MESSAGE_V2),
            _observed(pulls, metrics.request_times, RequestCode.PULL_MESSAGE),
            _joined(
                _observed(offsets, metrics.request_times, RequestCode.UPDATE_CONSUMER_OFFSET),
                _observed(acks, metrics.request_times, RequestCode.ACK_MESSAGE),
            ),
            under_way_max=self._settings.net.requests_under_way_max,
        )
        return shortcut if signed is None or shortcut is None else signed.around(shortcut)

    def _fast_signatures(self) -> "FastSignatures | None":
        """Return what has the kernel look at signatures; None without access control."""
        access = self._access
        if access is None:
            return None
        # Only now, like the access control itself.
        from pyromq.broker.access.signed_shortcut import FastSignatures

        signed = FastSignatures(self._table, lambda: access.rules, self._store)
        access.learn = signed.learn
        return signed

    def _signatures(self, codes: Iterable[int]) -> "Signatures | None":
        """Return what looks at requests of these codes; None without access control."""
        return None if self._signed is None else self._signed.of(codes)

    def _fast_sends(self, send: SendHandlers, delivery: PullDelivery, busy: Busy) -> FastSends | None:
        settings, write = self._settings, self._write
        sends = make_sends(
            store_host=write.addresses.store_host,
            cluster=settings.broker.broker_cluster_name,
            common_ext=send.common_ext,
            diverting=write.intake.diverting,
            wait_matters=not write.durability.is_immediate,
            has_index=settings.store.message_index_enable,
            body_bytes_max=settings.store.max_message_size,
        )
        if sends is None:
            return None
        sends.guard(self._signatures((*_SENDS, *(others.code for others in self._others))))
        for others in self._others:
            sends.take_in(others)
        fast = FastSends(
            sends,
            store=self._store,
            topics=self._topics,
            delivery=delivery,
            durability=write.durability,
            live=self._live,
            queue=busy.sends,
            clock=self._clock,
        )
        fast.plain_diversions = write.intake.plain_diversions
        send.learn, send.learn_diverted = fast.learn, fast.learn_diverted
        return fast

    def _fast_offsets(self, progress: ProgressHandlers) -> FastOffsets:
        offsets = make_offsets()
        offsets.guard(self._signatures(_OFFSETS))
        fast = FastOffsets(offsets, self._groups.offsets, takes_commits=not self._is_slave)
        progress.learn = fast.learn
        return fast

    def _fast_acks(self, handlers: PopAckHandlers) -> FastAcks:
        acks = make_acks()
        acks.guard(self._signatures((RequestCode.ACK_MESSAGE,)))
        fast = FastAcks(acks, handlers.pop, self._topics)
        handlers.learn = fast.learn
        return fast

    def _fast_pulls(self, pull: PullHandlers, delivery: PullDelivery, metrics: BrokerMetrics) -> FastPulls:
        pulls = make_pulls(self._settings.store)
        pulls.guard(self._signatures(_PULLS))
        fast = FastPulls(
            pulls,
            store=self._store,
            topics=self._topics,
            groups=self._groups,
            arrivals=delivery.arrivals,
            live=self._live,
            clock=self._clock,
        )
        fast.answer_again, fast.read_again = self._table.answer, pull.read_again
        if metrics.request_times is not None:
            fast.on_woken = metrics.request_times.held(RequestCode.PULL_MESSAGE)
        pull.learn = fast.learn
        metrics.stats.take_served, metrics.stats.take_missed = fast.take_served, fast.take_missed
        return fast


def _observed(
    fast: FastSends | FastPulls | FastOffsets | FastAcks | None, times: "RequestTimes | None", code: int
) -> Shortcut | None:
    if fast is None or times is None:
        return None if fast is None else fast.take
    return times.around(fast.take, code)


def _joined(first: Shortcut | None, second: Shortcut | None) -> Shortcut | None:
    """Return the shortcut that offers what links received to one, and what is left to the other."""
    if first is None or second is None:
        return first or second

    def take(links: list[Link]) -> bool:
        has_handled = first(links)
        return second(links) or has_handled

    return take
