"""Builds the handlers of staged sends; a master does so once it has an address."""

from pyromq.broker.delivery.arrivals import Announcements
from pyromq.broker.durability.write_path import WritePath
from pyromq.broker.kinds.staging.batches import StagedBatches
from pyromq.broker.kinds.staging.departures import Departures
from pyromq.broker.kinds.staging.publishing import Publisher
from pyromq.broker.kinds.staging.staging import Staging
from pyromq.broker.requests.handlers.staging_handlers import StagingHandlers
from pyromq.broker.requests.send_shortcut import MULTI_TAG
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import SysFlag
from pyromq.config.settings import BrokerSettings
from pyromq.store.store import MessageStore


def make_staging(
    batches: StagedBatches,
    write: WritePath,
    *,
    store: MessageStore,
    topics: TopicTable,
    announcements: Announcements,
    settings: BrokerSettings,
    clock: Clock,
    use_kernel: bool,
) -> StagingHandlers:
    """Return the handlers of staged sends; from now on, published batches leave through them."""

    def sys_flag_of(topic: str) -> int:
        config = topics.get(topic)
        is_multi = config is not None and config.topic_filter_type == MULTI_TAG
        return int(SysFlag.MULTI_TAGS) if is_multi else 0

    publisher = Publisher(
        store=store,
        intake=write.intake,
        announcements=announcements,
        sys_flag_of=sys_flag_of,
        store_host=write.addresses.store_host,
        cluster=settings.broker_cluster_name,
        clock=clock,
        use_kernel=use_kernel,
    )
    departures = Departures(batches, publisher)
    batches.lead(write.intake, departures, store_host=write.addresses.store_host)
    return StagingHandlers(
        staging=Staging(batches, departures, write.durability, clock),
        publisher=publisher,
        admission=write.admission,
        topics=topics,
        durability=write.durability,
        settings=settings,
    )
