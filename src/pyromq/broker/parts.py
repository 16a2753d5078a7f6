"""What a broker is made of before it has an address: its tables, its store, who is connected."""

from dataclasses import dataclass
from pathlib import Path

from pyromq.broker.arrivals import Arrivals
from pyromq.broker.background import Background
from pyromq.broker.busy import Busy
from pyromq.broker.clients import Consumers, Producers
from pyromq.broker.delay import DelayedMessages
from pyromq.broker.filters import FilterTable
from pyromq.broker.groups import GroupTable
from pyromq.broker.half_messages import HalfMessages
from pyromq.broker.handlers.presence import PresenceHandlers
from pyromq.broker.live_settings import LiveSettings
from pyromq.broker.membership import Membership
from pyromq.broker.offsets import OffsetTable
from pyromq.broker.queue_locks import QueueLocks
from pyromq.broker.staging.table import StagedTable
from pyromq.broker.stats import BrokerStats
from pyromq.broker.subscription_conflicts import SubscriptionConflicts
from pyromq.broker.timers.timers import Timers
from pyromq.broker.topic_news import TopicNews
from pyromq.broker.topics import TopicTable
from pyromq.clock import Clock
from pyromq.config.choices import BrokerRole, FlushDiskType
from pyromq.config.live import own_copy
from pyromq.config.settings import BrokerProcess, BrokerSettings, NetSettings, StoreSettings
from pyromq.errors import ConfigError
from pyromq.store.files import Files, SystemFiles
from pyromq.store.store import MessageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of one broker that the others are built from."""

    live: LiveSettings
    settings: BrokerSettings
    store_settings: StoreSettings
    net_settings: NetSettings
    clock: Clock
    topics: TopicTable
    groups: GroupTable
    offsets: OffsetTable
    queue_locks: QueueLocks
    filters: FilterTable
    staged: StagedTable
    store: MessageStore
    delayed: DelayedMessages
    timers: Timers
    halves: HalfMessages
    arrivals: Arrivals
    producers: Producers
    consumers: Consumers
    conflicts: SubscriptionConflicts
    presence: PresenceHandlers
    topic_news: TopicNews
    stats: BrokerStats
    background: Background
    busy: Busy
    use_kernel: bool


def make_parts(process: BrokerProcess, *, clock: Clock, files: Files | None, use_kernel: bool) -> Parts:
    """Build the parts; nothing is read yet. Raises ConfigError when the settings do not make a broker."""
    if not process.store.store_path_root_dir:
        raise ConfigError("storePathRootDir: a broker needs a folder to keep its messages in")
    root = Path(process.store.store_path_root_dir)
    tables = root / "config"
    process = own_copy(process)
    live = LiveSettings(process, tables / "live.properties", clock, files=files)
    live.load()
    settings, store_settings = process.broker, process.store
    topics = TopicTable(tables / "topics.json", settings, clock, files=files)
    groups = GroupTable(tables / "subscriptionGroup.json", settings, clock, files=files)
    offsets = OffsetTable(tables / "consumerOffset.json", files=files)
    queue_locks = QueueLocks(tables / "queueLocks.json", clock, files=files)
    filters = FilterTable(tables / "consumerFilter.json", settings, clock, files=files)
    staged = StagedTable(tables / "stagedBatches.json", files=files)
    is_slave = settings.broker_role == BrokerRole.SLAVE
    is_buffered = (
        store_settings.transient_store_pool_enable
        and store_settings.flush_disk_type == FlushDiskType.ASYNC_FLUSH
        and not is_slave
    )
    store = MessageStore(store_settings, clock=clock, files=files, is_buffered=is_buffered)
    delayed = DelayedMessages(store, clock, path=tables / "delayOffset.json", files=files)
    # SQLite knows no file system but the machine's.
    timers = Timers(store, clock, path=(files or SystemFiles()).database(root / "timers" / "waiting.db"))
    halves = HalfMessages(store, offsets)
    arrivals = Arrivals(store.waiting_end, clock)
    producers = Producers(clock)
    consumers = Consumers(clock)
    membership = Membership(groups, settings)
    conflicts = SubscriptionConflicts(settings, clock, membership.warn)
    presence = PresenceHandlers(
        producers=producers,
        consumers=consumers,
        groups=groups,
        topics=topics,
        filters=filters,
        membership=membership,
        conflicts=conflicts,
        locks=queue_locks,
        clock=clock,
    )
    return Parts(
        live=live,
        settings=settings,
        store_settings=store_settings,
        net_settings=process.net,
        clock=clock,
        topics=topics,
        groups=groups,
        offsets=offsets,
        queue_locks=queue_locks,
        filters=filters,
        staged=staged,
        store=store,
        delayed=delayed,
        timers=timers,
        halves=halves,
        arrivals=arrivals,
        producers=producers,
        consumers=consumers,
        conflicts=conflicts,
        presence=presence,
        topic_news=TopicNews(consumers, membership),
        stats=BrokerStats(store, clock, cluster=settings.broker_cluster_name),
        background=Background(clock),
        busy=Busy(live, clock, held_pulls=lambda: arrivals.held_count),
        use_kernel=use_kernel,
    )
