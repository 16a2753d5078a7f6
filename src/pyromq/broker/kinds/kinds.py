"""All kinds of messages that wait, as a broker starts, runs and stops them: one loop over the list."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Final

from pyromq.broker.background import Background
from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.groups.offsets import OffsetTable
from pyromq.broker.kinds.delay import DelayedMessages, delay_diversion
from pyromq.broker.kinds.half_messages import HalfMessages, half_diversion
from pyromq.broker.kinds.kind_follower import KindFollower
from pyromq.broker.kinds.staging.batches import StagedBatches
from pyromq.broker.kinds.timers.timed import timer_diversions
from pyromq.broker.kinds.timers.timers import Timers
from pyromq.broker.pop.popped_messages import PoppedMessages
from pyromq.broker.topics.intake import Diversion, PlainDiversion
from pyromq.clock import Clock
from pyromq.config.settings import BrokerProcess, BrokerSettings
from pyromq.store.files import Files, SystemFiles
from pyromq.store.store import MessageStore
from pyromq.wire import properties as names

#: How often a replica applies what it copied.
FOLLOW_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Kinds:
    """The followers of one broker's log, one for each kind."""

    halves: HalfMessages
    timers: Timers
    delayed: DelayedMessages
    staged: StagedBatches
    popped: PoppedMessages

    def __iter__(self) -> Iterator[KindFollower]:
        """Yield them in the order in which a message may be diverted."""
        return (getattr(self, field.name) for field in fields(self))

    def diversions(self, broker_ip: str) -> dict[str, Diversion]:
        """Return what sends a message where its kind waits, by the property that asks for it."""
        return {name: divert for kind in self for name, divert in kind.diversions(broker_ip).items()}

    def plain_diversions(self) -> list[PlainDiversion]:
        """Return what the kernel may repeat of the diversions, as the settings are now."""
        return [plain for kind in self for plain in kind.plain_diversions()]

    def forget_beyond(self, cut_at: int) -> None:
        """Remove checkpoints that may speak of the log behind a position, before the log is cut there.

        The next start may not know of the cut. What is removed is found again in the log.
        """
        for kind in self:
            kind.forget_beyond(cut_at)

    def load(self, store: MessageStore, *, is_master: bool) -> None:
        """Bring each kind to where the log is; on a master, each is told of its records from now on."""
        if is_master:
            store.follow_topics({topic: kind for kind in self for topic in kind.topics})
        for kind in self:
            if is_master or kind.is_on_replicas:
                kind.load()

    def lead(self, durability: Durability, background: Background) -> None:
        """Let what waits go on, as a master does."""
        for kind in self:
            kind.start(durability)
            background.every(f"look after {kind.name}", kind.upkeep_s, partial(kind.upkeep, durability))

    def follow(self, durability: Durability, background: Background) -> None:
        """Keep the checkpoints near the end of a log that grows by copying, as a replica does."""
        for kind in self:
            if kind.is_on_replicas:
                background.every(f"follow {kind.name}", FOLLOW_S, partial(kind.follow, durability))

    def saves(self, durability: Durability, *, is_master: bool) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what brings each checkpoint to the disk, by what it holds."""
        return {
            kind.name: partial(kind.save, durability) for kind in self if is_master or kind.is_on_replicas
        }

    @property
    def next_due_ms(self) -> int | None:
        """The wall time at which the next message of any kind goes on; None when none is known to."""
        dues = (kind.next_due_ms for kind in self)
        return min((due_ms for due_ms in dues if due_ms is not None), default=None)

    def stop(self) -> None:
        """Let nothing go on any more."""
        for kind in self:
            kind.stop()


def make_kinds(
    root: Path,
    store: MessageStore,
    offsets: OffsetTable,
    settings: BrokerSettings,
    clock: Clock,
    *,
    files: Files | None = None,
) -> Kinds:
    """Build the followers; nothing is read yet."""
    tables = root / "config"
    # SQLite knows no file system but the machine's.
    database = (files or SystemFiles()).database(root / "timers" / "waiting.db")
    return Kinds(
        HalfMessages(store, offsets, settings),
        Timers(store, clock, path=database),
        DelayedMessages(store, clock, path=tables / "delayOffset.json", files=files),
        StagedBatches(store, clock, settings, path=tables / "stagedBatches.json", files=files),
        PoppedMessages(store, clock, path=root / "pop" / "inFlight.bin", files=files),
    )


def diversions(
    store: MessageStore, settings: BrokerProcess, clock: Clock, *, broker_ip: str
) -> dict[str, Diversion]:
    """Return the diversions of messages that wait, by the property that tells the kind, in their order."""
    return {
        names.TRANSACTION_PREPARED: half_diversion(settings.broker, broker_ip=broker_ip),
        **timer_diversions(settings.store, clock.now_ms),
        names.DELAY: delay_diversion(store.delays_ms),
    }
