"""The groups of a broker: their configurations, members, progress, queue locks and subscription conflicts.

`Groups` is the one door of this package. Handlers, replication and metrics take it whole and use the tables
in it; the broker calls `load`, `run_jobs` and `close`, and saves the `tables`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyromq.broker.background import Background
from pyromq.broker.groups.clients import Consumers, Producers
from pyromq.broker.groups.groups import GroupTable
from pyromq.broker.groups.membership_notices import Membership
from pyromq.broker.groups.offsets import OffsetTable
from pyromq.broker.groups.queue_locks import QueueLocks
from pyromq.broker.groups.request_modes import RequestModes
from pyromq.broker.groups.subscription_conflicts import SubscriptionConflicts
from pyromq.broker.groups.topic_news import TopicNews
from pyromq.broker.json_table import Save
from pyromq.clock import Clock
from pyromq.config.settings import BrokerSettings
from pyromq.store.files import Files

#: Seconds between two looks for subscription conflicts, and for clients without heartbeats.
CONFLICTS_LOOK_S: Final = 1.0
SILENT_CLIENTS_LOOK_S: Final = 10.0


class Groups:
    """All consumer and producer groups of one broker."""

    def __init__(
        self, settings: BrokerSettings, clock: Clock, *, folder: Path, files: Files | None = None
    ) -> None:
        self._settings = settings
        self.table = GroupTable(folder / "subscriptionGroup.json", settings, clock, files=files)
        self.offsets = OffsetTable(folder / "consumerOffset.json", files=files)
        self.request_modes = RequestModes(folder / "messageRequestMode.json", files=files)
        self.locks = QueueLocks(folder / "queueLocks.json", clock, files=files)
        self.consumers = Consumers(clock)
        self.producers = Producers(clock)
        self.membership = Membership(self.table, settings)
        self.conflicts = SubscriptionConflicts(settings, clock, self.membership.warn)
        self.topic_news = TopicNews(self.consumers, self.membership)

    def load(self) -> None:
        """Read the tables from their files."""
        self.table.load()
        self.offsets.load()
        self.request_modes.load()
        self.locks.load()

    def run_jobs(self, background: Background) -> None:
        """Look for conflicts and silent clients, and save progress, from now on."""
        background.every("look at subscriptions", CONFLICTS_LOOK_S, self.conflicts.look)
        background.every(
            "save progress", self._settings.flush_consumer_offset_interval / 1000, self.offsets.save
        )
        background.every("drop silent clients", SILENT_CLIENTS_LOOK_S, self.drop_silent)

    def drop_silent(self) -> None:
        """End the connections whose heartbeats stopped; they leave their groups when they are closed."""
        silence_ms = self._settings.channel_expired_timeout
        for link in self.consumers.silent_links(silence_ms) | self.producers.silent_links(silence_ms):
            link.close()

    @property
    def saves(self) -> Mapping[str, Save]:
        """The functions that save the tables, by the table's name in the log."""
        return {
            "groups": self.table.save,
            "consumers' progress": self.offsets.save,
            "request modes": self.request_modes.save,
            "queue locks": self.locks.save,
        }

    def close(self) -> None:
        """Tell consumers of no more topics."""
        self.topic_news.close()
