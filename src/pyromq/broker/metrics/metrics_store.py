"""The metrics of a broker's store, and of the messages that wait in it."""

from collections.abc import Callable
from typing import Final

from pyromq.broker.kinds.kinds import Kinds
from pyromq.clock import Clock
from pyromq.net.metrics import Figure
from pyromq.store.store import MessageStore
from pyromq.system_names import SCHEDULE, TRANSACTION_HALF

#: RocketMQ 5.x has tiered storage, and these labels tell it apart.
_LABELS: Final = ("storage_type", "storage_medium")
_LOCAL_DISK: Final = ("local", "disk")


def store_figures(store: MessageStore, clock: Clock) -> list[Figure]:
    """Return the metrics of the store's disk and log."""

    def kept_ms() -> float:
        oldest_ms = store.log.stored_at(store.min_position)
        return 0 if oldest_ms is None else clock.now_ms() - oldest_ms

    return [
        _storage(
            "rocketmq_storage_size", "Bytes in use on the store's disk.", lambda: store.disk_use.used_bytes
        ),
        _storage(
            "rocketmq_storage_flush_behind_bytes",
            "Bytes at the end of the commit log that the disk may not have yet.",
            lambda: store.max_position - store.flushed_position,
        ),
        _storage(
            "rocketmq_storage_dispatch_behind_bytes",
            "Bytes of the commit log whose messages are not in their queues yet.",
            lambda: store.max_position - store.whole_position,
        ),
        _storage(
            "rocketmq_storage_message_reserve_time",
            "Milliseconds since the oldest message was stored that is kept.",
            kept_ms,
        ),
        _single(
            "pyromq_disk_used_ratio",
            "Share of the store's disk that is in use, 0 to 1.",
            lambda: store.disk_ratio,
        ),
        _single("pyromq_log_begin_bytes", "Where the commit log begins.", lambda: store.min_position),
        _single("pyromq_log_end_bytes", "Where the commit log ends.", lambda: store.max_position),
        _single(
            "pyromq_unsafe_bytes",
            "Bytes of the commit log that a start after a crash would have to walk.",
            lambda: store.unsafe_bytes,
        ),
        _single("pyromq_writable", "1 while messages are taken.", lambda: int(store.is_writable)),
    ]


def waiting_figures(store: MessageStore, kinds: Kinds) -> list[Figure]:
    """Return the metrics of messages that wait for a time or for the end of their transaction."""
    delayed, timers, halves = kinds.delayed, kinds.timers, kinds.halves
    return [
        _single(
            "pyromq_timed_messages_near",
            "Messages with a time of their own that wait in memory, because it is near.",
            lambda: timers.in_memory,
        ),
        Figure(
            "pyromq_delayed_messages",
            "Messages that wait in a delay level.",
            ("level",),
            lambda: {
                (str(level),): max(0, store.max_offset(SCHEDULE, level - 1) - progress.get(level, 0))
                for progress in (delayed.progress,)
                for level in store.delays_ms
            },
        ),
        _single(
            "rocketmq_half_messages",
            "Half messages from the oldest on whose transaction may be undecided.",
            lambda: max(0, store.max_offset(TRANSACTION_HALF, 0) - halves.progress),
        ),
    ]


def _storage(name: str, about: str, read: Callable[[], float]) -> Figure:
    return Figure(name, about, _LABELS, lambda: {_LOCAL_DISK: read()})


def _single(name: str, about: str, read: Callable[[], float]) -> Figure:
    return Figure(name, about, (), lambda: {(): read()})
