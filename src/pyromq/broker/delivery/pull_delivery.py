"""Delivery of messages to consumers: held pulls, announcements of new messages, and SQL filters.

`PullDelivery` is the one door of this package for what exists before the broker has an address; the pull
handlers and the pull shortcut are built from it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyromq.broker.background import Background
from pyromq.broker.delivery.arrivals import Announcements, Arrivals
from pyromq.broker.delivery.sql_filters import FilterTable
from pyromq.broker.json_table import Save
from pyromq.clock import Clock
from pyromq.config.settings import BrokerSettings
from pyromq.net.turn import TurnStep
from pyromq.store.files import Files
from pyromq.store.store import MessageStore

#: Seconds between two looks for held pulls whose time is up.
HELD_PULLS_SWEEP_S: Final = 5.0


class PullDelivery:
    """The held pulls of one broker, and the filters of their groups. Pulls are woken in `step`."""

    def __init__(
        self,
        store: MessageStore,
        settings: BrokerSettings,
        clock: Clock,
        step: TurnStep,
        *,
        folder: Path,
        files: Files | None = None,
    ) -> None:
        self._settings = settings
        self.arrivals = Arrivals(store.waiting_end, clock, step=step)
        self.announcements = Announcements(store, self.arrivals)
        self.filters = FilterTable(folder / "consumerFilter.json", settings, clock, files=files)

    def load(self) -> None:
        """Read the filters from their file."""
        self.filters.load()

    def run_jobs(self, background: Background) -> None:
        """Answer held pulls whose time is up, from now on."""
        background.every("sweep held pulls", self._sweep_s, self.arrivals.sweep)

    @property
    def saves(self) -> Mapping[str, Save]:
        """The functions that save the tables, by the table's name in the log."""
        return {"filters": self.filters.save}

    def close(self) -> None:
        """Answer all held pulls."""
        self.arrivals.wake_all()

    def _sweep_s(self) -> float:
        settings = self._settings
        if settings.long_polling_enable:
            return HELD_PULLS_SWEEP_S
        return settings.short_polling_time_mills / 1000
