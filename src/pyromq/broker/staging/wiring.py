"""Builds what a broker needs for staged sends, and starts it."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from pyromq.broker.admission import Admission
from pyromq.broker.announcements import Announcements
from pyromq.broker.background import Background
from pyromq.broker.durability import Durability
from pyromq.broker.fast_sends import MULTI_TAG
from pyromq.broker.handlers.staging import StagingHandlers
from pyromq.broker.intake import Intake
from pyromq.broker.staging.departures import Departures
from pyromq.broker.staging.journal import Journal
from pyromq.broker.staging.publishing import Publisher
from pyromq.broker.staging.replay import replay
from pyromq.broker.staging.staging import Staging
from pyromq.broker.staging.table import StagedTable
from pyromq.broker.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import SysFlag
from pyromq.config.settings import BrokerSettings
from pyromq.store.store import MessageStore

UPKEEP_S = 5.0


async def start_staging(
    *,
    store: MessageStore,
    intake: Intake,
    topics: TopicTable,
    admission: Admission,
    announcements: Announcements,
    log_grew: Callable[[], None],
    durability: Durability,
    settings: BrokerSettings,
    clock: Clock,
    store_host: bytes,
    table: StagedTable,
    use_kernel: bool,
    background: Background,
    closing: AsyncExitStack,
) -> StagingHandlers:
    """Find out what is staged, go on with what was being published, and return what answers clients."""

    def sys_flag_of(topic: str) -> int:
        config = topics.get(topic)
        is_multi = config is not None and config.topic_filter_type == MULTI_TAG
        return int(SysFlag.MULTI_TAGS) if is_multi else 0

    publisher = Publisher(
        store=store,
        intake=intake,
        announcements=announcements,
        appended=log_grew,
        sys_flag_of=sys_flag_of,
        store_host=store_host,
        cluster=settings.broker_cluster_name,
        clock=clock,
        use_kernel=use_kernel,
    )
    journal = Journal(
        await asyncio.to_thread(replay, store, table),
        table,
        store=store,
        intake=intake,
        durability=durability,
        settings=settings,
        clock=clock,
        store_host=store_host,
    )
    departures = Departures(journal, publisher)
    staging = Staging(journal, departures)
    closing.push_async_callback(staging.close)
    background.every("look after staged batches", UPKEEP_S, staging.upkeep)
    departures.resume()
    return StagingHandlers(
        staging=staging,
        publisher=publisher,
        admission=admission,
        topics=topics,
        durability=durability,
        settings=settings,
    )
