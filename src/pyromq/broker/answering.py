"""Builds what answers clients: a handler for each kind of request, and its routes in the table."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from pyromq.broker.acl.control import AccessControl
from pyromq.broker.addresses import BrokerAddresses
from pyromq.broker.admission import Admission
from pyromq.broker.announcements import Announcements
from pyromq.broker.busy import QuickRefusals
from pyromq.broker.durability import Durability
from pyromq.broker.fast_pulls import FastPulls, make_pulls
from pyromq.broker.fast_sends import FastSends, make_sends
from pyromq.broker.handlers.access import AccessHandlers
from pyromq.broker.handlers.admin import AdminHandlers
from pyromq.broker.handlers.configuration import ConfigurationHandlers, ResumeHandlers
from pyromq.broker.handlers.operations import OperationHandlers
from pyromq.broker.handlers.progress import ProgressHandlers
from pyromq.broker.handlers.pull import MASTER_ID, PullHandlers
from pyromq.broker.handlers.query import QueryHandlers
from pyromq.broker.handlers.relay import RelayHandlers
from pyromq.broker.handlers.reply import ReplyHandlers
from pyromq.broker.handlers.retry import RetryHandlers
from pyromq.broker.handlers.send import SendHandlers
from pyromq.broker.handlers.statistics import StatisticsHandlers
from pyromq.broker.handlers.timers import TimerHandlers
from pyromq.broker.handlers.transaction import TransactionHandlers
from pyromq.broker.intake import Intake
from pyromq.broker.offset_events import OffsetEvents
from pyromq.broker.parts import Parts
from pyromq.broker.registration import Registration
from pyromq.broker.replication.committed_here import CommittedHere
from pyromq.broker.routes import (
    access_routes,
    admin_routes,
    group_routes,
    kind_routes,
    operation_routes,
    pull_routes,
    query_routes,
    replica_routes,
    send_routes,
    staging_routes,
    timer_routes,
)
from pyromq.broker.staging.wiring import start_staging
from pyromq.codes import RequestCode
from pyromq.config.choices import BrokerRole
from pyromq.net.latency import RequestTimes
from pyromq.net.link import Shortcut, either
from pyromq.net.routes import RouteTable
from pyromq.net.server import Server


async def fill_routes(
    parts: Parts,
    table: RouteTable,
    server: Server,
    *,
    intake: Intake,
    durability: Durability,
    addresses: BrokerAddresses,
    registration: Registration,
    announcements: Announcements,
    access: AccessControl | None,
    committed_here: CommittedHere | None,
    log_grew: Callable[[], None],
    let_files_go: Callable[[], None],
    closing: AsyncExitStack,
    times: RequestTimes | None = None,
) -> None:
    """Fill the table of routes, and give the server the kernel's shortcut around it.

    `log_grew` is for whoever appends without the store telling of each message; `let_files_go` lets old files
    of the store go, at any hour; `times` observes what the kernel answers.
    """
    send = _send_handlers(parts, intake, durability, addresses)
    pull = _pull_handlers(parts, intake, addresses)
    fast_pulls = _fast_pulls(parts, pull)
    fast_sends = _fast_sends(parts, send, intake, durability, addresses, announcements, log_grew)
    server.shortcut = _observed(fast_sends, fast_pulls, times)
    if fast_sends is None:
        server.shortcut = either(QuickRefusals(parts.busy), server.shortcut)
    table.add(send_routes(send))
    table.add(
        kind_routes(
            _retry_handlers(parts, intake, durability, addresses),
            _transaction_handlers(parts, intake, durability, addresses),
            _reply_handlers(parts, intake, durability, addresses),
        )
    )
    staging = None
    if parts.settings.broker_role != BrokerRole.SLAVE:
        staging = await start_staging(
            store=parts.store,
            intake=intake,
            topics=parts.topics,
            admission=_admission(parts, addresses),
            announcements=announcements,
            durability=durability,
            log_grew=log_grew,
            settings=parts.settings,
            clock=parts.clock,
            store_host=addresses.store_host,
            table=parts.staged,
            use_kernel=parts.use_kernel,
            background=parts.background,
            closing=closing,
        )
    table.add(staging_routes(staging))
    table.add(pull_routes(pull))
    progress = ProgressHandlers(parts.store, parts.offsets, parts.queue_locks, durability, committed_here)
    table.add(group_routes(progress, parts.presence))
    table.add(
        query_routes(QueryHandlers(parts.store, unique_count_max=parts.store_settings.default_query_max_num))
    )
    table.add(timer_routes(_timer_handlers(parts, durability)))
    table.add(admin_routes(_admin_handlers(parts, registration), _relay_handlers(parts)))
    table.add(access_routes(_access_handlers(parts, access, addresses)))
    if not parts.settings.failover:
        table.add(replica_routes(None))
    _add_operations(parts, table, intake, durability, addresses, registration, let_files_go)


def _observed(
    fast_sends: FastSends | None, fast_pulls: FastPulls | None, times: RequestTimes | None
) -> Shortcut | None:
    if times is None:
        return either(fast_sends, fast_pulls)
    return either(
        times.around(fast_sends, RequestCode.SEND_MESSAGE_V2),
        times.around(fast_pulls, RequestCode.PULL_MESSAGE),
    )


def _send_handlers(
    parts: Parts, intake: Intake, durability: Durability, addresses: BrokerAddresses
) -> SendHandlers:
    return SendHandlers(
        admission=_admission(parts, addresses),
        topics=parts.topics,
        groups=parts.groups,
        intake=intake,
        durability=durability,
        settings=parts.settings,
        store_host=addresses.store_host,
    )


def _fast_sends(
    parts: Parts,
    send: SendHandlers,
    intake: Intake,
    durability: Durability,
    addresses: BrokerAddresses,
    announcements: Announcements,
    log_grew: Callable[[], None],
) -> FastSends | None:
    # The kernel looks at no signature.
    if not parts.use_kernel or parts.settings.broker_role == BrokerRole.SLAVE or parts.settings.acl_enable:
        return None
    sends = make_sends(
        store_host=addresses.store_host,
        cluster=parts.settings.broker_cluster_name,
        common_ext=send.common_ext,
        diverting=intake.diverting,
        wait_matters=not durability.is_immediate,
        has_index=parts.store_settings.message_index_enable,
        body_bytes_max=parts.store_settings.max_message_size,
    )
    if sends is None:
        return None
    fast = FastSends(
        sends,
        store=parts.store,
        topics=parts.topics,
        arrivals=parts.arrivals,
        announcements=announcements,
        log_grew=log_grew,
        durability=durability,
        common_ext=send.common_ext,
        requests_under_way_max=parts.net_settings.requests_under_way_max,
        live=parts.live,
        busy=parts.busy,
        clock=parts.clock,
    )
    send.learn = fast.learn
    return fast


def _fast_pulls(parts: Parts, pull: PullHandlers) -> FastPulls | None:
    settings = parts.settings
    pull.on_read = parts.stats.pulled
    # What may be read depends on what the replicas have, or on who asks.
    if not parts.use_kernel or settings.broker_role == BrokerRole.SLAVE or settings.failover:
        return None
    if settings.acl_enable:
        return None
    fast = FastPulls(
        partial(make_pulls, parts.store_settings, broker_id=MASTER_ID),
        store=parts.store,
        topics=parts.topics,
        groups=parts.groups,
        consumers=parts.consumers,
        offsets=parts.offsets,
        live=parts.live,
        busy=parts.busy,
    )
    pull.learn = fast.learn
    parts.stats.take_served = fast.take_served
    # What the kernel counted goes with what it knew.
    fast.before_renewal = parts.stats.look
    return fast


def _access_handlers(
    parts: Parts, access: AccessControl | None, addresses: BrokerAddresses
) -> AccessHandlers:
    return AccessHandlers(
        access,
        address=addresses.advertised,
        broker_name=parts.settings.broker_name,
        cluster_name=parts.settings.broker_cluster_name,
    )


def _admission(parts: Parts, addresses: BrokerAddresses) -> Admission:
    return Admission(parts.topics, parts.settings, parts.clock, broker_ip=addresses.ip)


def _retry_handlers(
    parts: Parts, intake: Intake, durability: Durability, addresses: BrokerAddresses
) -> RetryHandlers:
    return RetryHandlers(
        store=parts.store,
        intake=intake,
        topics=parts.topics,
        groups=parts.groups,
        durability=durability,
        settings=parts.settings,
        broker_ip=addresses.ip,
    )


def _transaction_handlers(
    parts: Parts, intake: Intake, durability: Durability, addresses: BrokerAddresses
) -> TransactionHandlers:
    return TransactionHandlers(
        store=parts.store,
        intake=intake,
        halves=parts.halves,
        durability=durability,
        clock=parts.clock,
        role=parts.settings.broker_role,
        store_host=addresses.store_host,
    )


def _timer_handlers(parts: Parts, durability: Durability) -> TimerHandlers:
    return TimerHandlers(
        parts.timers,
        store=parts.store,
        topics=parts.topics,
        durability=durability,
        settings=parts.settings,
    )


def _reply_handlers(
    parts: Parts, intake: Intake, durability: Durability, addresses: BrokerAddresses
) -> ReplyHandlers:
    return ReplyHandlers(
        admission=_admission(parts, addresses),
        topics=parts.topics,
        producers=parts.producers,
        intake=intake,
        durability=durability,
        settings=parts.settings,
        clock=parts.clock,
        store_address=addresses.advertised,
        store_host=addresses.store_host,
    )


def _pull_handlers(parts: Parts, intake: Intake, addresses: BrokerAddresses) -> PullHandlers:
    return PullHandlers(
        store=parts.store,
        topics=parts.topics,
        groups=parts.groups,
        consumers=parts.consumers,
        filters=parts.filters,
        offsets=parts.offsets,
        arrivals=parts.arrivals,
        offset_events=OffsetEvents(
            intake,
            parts.clock,
            broker_name=parts.settings.broker_name,
            store_host=addresses.store_host,
        ),
        conflicts=parts.conflicts,
        settings=parts.settings,
        clock=parts.clock,
        broker_ip=addresses.ip,
    )


def _admin_handlers(parts: Parts, registration: Registration) -> AdminHandlers:
    return AdminHandlers(
        topics=parts.topics,
        groups=parts.groups,
        offsets=parts.offsets,
        delayed=parts.delayed,
        consumers=parts.consumers,
        conflicts=parts.conflicts,
        producers=parts.producers,
        store=parts.store,
        registration=registration,
        broker_name=parts.settings.broker_name,
    )


def _relay_handlers(parts: Parts) -> RelayHandlers:
    return RelayHandlers(
        consumers=parts.consumers,
        topics=parts.topics,
        offsets=parts.offsets,
        store=parts.store,
        broker_name=parts.settings.broker_name,
    )


def _add_operations(
    parts: Parts,
    table: RouteTable,
    intake: Intake,
    durability: Durability,
    addresses: BrokerAddresses,
    registration: Registration,
    let_files_go: Callable[[], None],
) -> None:
    table.add(
        operation_routes(
            _operation_handlers(parts, durability, registration, let_files_go),
            _statistics_handlers(parts, addresses),
            ConfigurationHandlers(parts.live, topics=parts.topics, registration=registration),
            ResumeHandlers(store=parts.store, intake=intake, halves=parts.halves, durability=durability),
        )
    )


def _operation_handlers(
    parts: Parts,
    durability: Durability,
    registration: Registration,
    let_files_go: Callable[[], None],
) -> OperationHandlers:
    return OperationHandlers(
        topics=parts.topics,
        groups=parts.groups,
        offsets=parts.offsets,
        store=parts.store,
        stats=parts.stats,
        durability=durability,
        registration=registration,
        let_files_go=let_files_go,
    )


def _statistics_handlers(parts: Parts, addresses: BrokerAddresses) -> StatisticsHandlers:
    return StatisticsHandlers(
        topics=parts.topics,
        groups=parts.groups,
        offsets=parts.offsets,
        delayed=parts.delayed,
        consumers=parts.consumers,
        producers=parts.producers,
        filters=parts.filters,
        store=parts.store,
        stats=parts.stats,
        busy=parts.busy,
        settings=parts.settings,
        address=addresses.advertised,
    )
