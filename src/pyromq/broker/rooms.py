"""The rooms of a broker: what each is built from, and how they load and save their tables and run their jobs.

A room is a package with one door: a class that is built from what it needs. Only this module and `broker.py`
know all rooms; no function takes a broker or its rooms as a parameter.

    live, store      settings that may change, and the messages on disk
    topics, groups   the tables of topics and groups; members, progress, queue locks
    delivery         held pulls, announcements of new messages, SQL filters
    kinds            messages that wait: delay levels, timers, transactions, staged batches, popped messages
    pop              messages that are handed out and acknowledged one by one
    access           accounts and their permissions, where they are wanted
    metrics          counts of the traffic, and the page for Prometheus where it is wanted

`durability/` (acknowledgement), `replication/` (the role) and the servers around a broker (`surroundings.py`)
are built when it starts: they need an open store, or an address.
"""

import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyromq.broker.access.access_wiring import make_access_control
from pyromq.broker.addresses import settle_addresses
from pyromq.broker.background import Background
from pyromq.broker.delivery.pull_delivery import PullDelivery
from pyromq.broker.durability.acknowledgement import Durability, Lease
from pyromq.broker.durability.file_removal import OldFiles
from pyromq.broker.end_of_turn import BrokerTurn
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.grpc.grpc_opening import OpenedGrpc
from pyromq.broker.json_table import save_all
from pyromq.broker.kinds.kinds import make_kinds
from pyromq.broker.live_settings import BrokerLiveSettings
from pyromq.broker.metrics.metrics_room import BrokerMetrics
from pyromq.broker.pop.pop_door import Pop
from pyromq.broker.replication.adoption import adopt_topics
from pyromq.broker.replication.role import Replicating
from pyromq.broker.requests.busy import Busy
from pyromq.broker.requests.handlers.presence_handlers import PresenceHandlers
from pyromq.broker.requests.route_facts import BrokerTable
from pyromq.broker.surroundings import Surroundings
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.config.choices import BrokerRole, FlushDiskType
from pyromq.config.live import own_copy
from pyromq.config.settings import BrokerProcess
from pyromq.errors import ConfigError
from pyromq.net.process_health import HealthChecks
from pyromq.net.server import Server
from pyromq.store.files import Files
from pyromq.store.store import MessageStore


class BrokerRooms:
    """The rooms of one broker; nothing is read yet.

    Raises ConfigError when the settings do not make a broker. `lease` is looked at before answers leave.
    """

    def __init__(self, process: BrokerProcess, clock: Clock, files: Files | None, lease: Lease) -> None:
        if not process.store.store_path_root_dir:
            raise ConfigError("storePathRootDir: a broker needs a folder to keep its messages in")
        root = Path(process.store.store_path_root_dir)
        folder = self.folder = root / "config"
        settings = own_copy(replace(process, broker=settle_addresses(process.broker)))
        self._clock = clock
        self._background = Background(clock)
        self._turn = BrokerTurn(clock.monotonic)
        self._turn.may_leave = None if lease.is_lasting else lease.may_leave
        self.live = BrokerLiveSettings(settings, folder / "live.properties", clock, files=files)
        self.live.load()
        self.settings = settings
        self.store = _make_store(settings, clock, files)
        self.topics = TopicTable(
            folder / "topics.json", settings.broker, clock, pop=settings.pop, files=files
        )
        self.groups = Groups(settings.broker, clock, folder=folder, files=files)
        self.delivery = PullDelivery(
            self.store, settings.broker, clock, self._turn.wake, folder=folder, files=files
        )
        self.kinds = make_kinds(root, self.store, self.groups.offsets, settings.broker, clock, files=files)
        arrivals = self.delivery.arrivals
        self.pop = Pop(
            self.kinds.popped,
            self.store,
            clock,
            settings.pop,
            topics=self.topics,
            groups=self.groups,
            arrivals=arrivals,
            turn=self._turn,
        )
        self.groups.offsets.pops = self.pop
        self.busy = Busy(self.live, clock, held_pulls=lambda: arrivals.request_count, step=self._turn.relent)
        self._table = BrokerTable(())
        self._access = make_access_control(settings, self.store, clock, self._table)
        self._presence = PresenceHandlers(self.groups, self.topics, self.delivery.filters, clock)
        self._metrics = BrokerMetrics(self.store, settings.broker, clock)
        self._old_files = OldFiles(self.store, settings.store, clock)

    def _load(self, cut_at: int | None) -> None:
        """Open the store, and load the tables beside it; this blocks."""
        if self._access is not None:
            self._access.load()
        self.store.on_append = self.delivery.announcements.appended
        self.store.on_grown = self.delivery.announcements.copied
        if cut_at is not None:
            self.kinds.forget_beyond(cut_at)
        recovered = self.store.open(cut_at=cut_at)
        self.topics.load()
        self.groups.load()
        self.delivery.load()
        self._metrics.stats.start()
        if self._is_master:
            # It may have been a slave: copying ends anywhere, and progress came from a master that had more.
            adopt_topics(self.store, self.topics)
            is_sure = recovered.was_clean and not self.settings.broker.failover
            self.groups.offsets.keep_within(self._end_of_messages if is_sure else self.store.max_offset)
        self.kinds.load(self.store, is_master=self._is_master)

    @property
    def _is_master(self) -> bool:
        return self.settings.broker.broker_role != BrokerRole.SLAVE

    def _end_of_messages(self, topic: str, queue_id: int) -> int:
        """Return where a queue ends; one that never had a message, and may have been removed, has no end."""
        return self.store.max_offset(topic, queue_id) or sys.maxsize

    def _run_jobs(self, durability: Durability, surroundings: Surroundings) -> None:
        jobs = self._background
        surroundings.run_jobs(jobs)
        durability.run_jobs(jobs, is_buffered=self.store.is_buffered)
        self._old_files.run_jobs(jobs)
        self.delivery.run_jobs(jobs)
        if self._access is not None:
            self._access.run_jobs(jobs)
        self._metrics.run_jobs(jobs)
        self.groups.run_jobs(jobs)

    async def _save_tables(self, durability: Durability) -> None:
        await save_all(
            {
                **self.kinds.saves(durability, is_master=self._is_master),
                "topics": self.topics.save,
                **self.groups.saves,
                **self.delivery.saves,
            }
        )

    async def _serve_metrics(
        self,
        server: Server,
        role: Replicating,
        grpc: OpenedGrpc,
        health: HealthChecks,
        closing: AsyncExitStack,
    ) -> None:
        """Serve the metrics of all rooms until `closing` is, if the settings want them."""
        if not self._metrics.is_served:
            return
        # Only now: a broker that serves no metrics does without these.
        from pyromq.broker.metrics.exposition import (
            group_figures,
            request_figures,
            topic_figures,
            traffic_figures,
        )
        from pyromq.broker.metrics.metrics_grpc import grpc_figures, time_calls
        from pyromq.broker.metrics.metrics_lag import Lags
        from pyromq.broker.metrics.metrics_pop import pop_figures
        from pyromq.broker.metrics.metrics_store import store_figures, waiting_figures

        figures = [
            *traffic_figures(self._metrics.stats),
            *group_figures(self.groups),
            *request_figures(server, self.busy, self.delivery.arrivals),
            *topic_figures(self.settings.broker, self.topics),
            *store_figures(self.store, self._clock),
            *waiting_figures(self.store, self.kinds),
            *pop_figures(self.pop),
            *grpc_figures(grpc),
            *role.figures(),
        ]
        if grpc.at is not None and self._metrics.request_times is not None:
            grpc.at.when_loaded(partial(time_calls, times=self._metrics.request_times))
        lags = Lags(self.groups.offsets, self.topics, self.store, self._clock)
        await self._metrics.serve(figures, lags, health, closing)


def _make_store(settings: BrokerProcess, clock: Clock, files: Files | None) -> MessageStore:
    is_buffered = (
        settings.store.transient_store_pool_enable
        and settings.store.flush_disk_type == FlushDiskType.ASYNC_FLUSH
        and settings.broker.broker_role != BrokerRole.SLAVE
    )
    return MessageStore(settings.store, clock=clock, files=files, is_buffered=is_buffered)
