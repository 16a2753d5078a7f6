"""The answer to GET_BROKER_RUNTIME_INFO (28): the broker's state as text, by RocketMQ's names.

A PyroMQ broker has no thread pools. The fields of their queues tell of the requests in flight (`busy.py`),
and the field of the page cache's lock tells of the last slow write. The durations of single puts and gets are
in the metrics, and 0 here.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pyromq import system_names
from pyromq.broker.metrics.stats import BrokerStats, MessageTotals
from pyromq.broker.requests.busy import Busy
from pyromq.codes import VERSION
from pyromq.config.settings import BrokerSettings
from pyromq.net.link import Link
from pyromq.release import VERSION as PYROMQ_VERSION
from pyromq.store.store import MessageStore

#: Where the log begins, and where it ends: what a slave asks its master.
LOG_START: Final = "commitLogMinOffset"
LOG_END: Final = "commitLogMaxOffset"
VERSION_DESCRIPTION: Final = "V4_9_8"
#: The version of PyroMQ; ours. `brokerVersionDesc` is RocketMQ's, whose protocol is spoken.
OUR_VERSION: Final = "pyromqVersion"
#: Why nothing is written until a restart; ours, and only there when it is so.
STORE_FAILURE: Final = "storeFailure"
#: At a slave, the brokerRole of its master; ours, and only there when the master said it.
MASTER_ROLE: Final = "masterRole"
#: Where RocketMQ 5's SDKs connect, and why they cannot; ours, and only there when it is so.
GRPC_ADDRESS: Final = "grpcAddress"
WHY_NO_GRPC: Final = "whyNoGrpc"

_WINDOWS_S: Final = (10, 60, 600)
_TIMES: Final = (
    *("[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]"),
    *("[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]"),
)
#: Of the queue of RocketMQ's pool for queries; nobody waits in it here.
_QUERY_CAPACITY: Final = "20000"


class RuntimeTable:
    """The state of one broker; `delays` returns the progress of the delay levels."""

    def __init__(
        self,
        store: MessageStore,
        stats: BrokerStats,
        busy: Busy,
        settings: BrokerSettings,
        delays: Callable[[], Mapping[int, int]],
    ) -> None:
        self._store = store
        self._stats = stats
        self._busy = busy
        self._settings = settings
        self._delays = delays

    def read(self, link: Link) -> dict[str, str]:
        """Return the state of now, for a client whose request came by `link`."""
        store, stats, busy = self._store, self._stats, self._busy
        start_ms = self._settings.start_accept_send_request_time_stamp
        return {
            **_traffic(stats),
            **_days(stats),
            **_queues(busy, busy.waited_ms(link)),
            **_disk(store),
            **_delays(store, self._delays()),
            **({} if store.ailment is None else {STORE_FAILURE: store.ailment}),
            **({MASTER_ROLE: stats.master_role} if stats.master_role else {}),
            **({GRPC_ADDRESS: stats.grpc_address} if stats.grpc_address else {}),
            **({WHY_NO_GRPC: stats.why_no_grpc} if stats.why_no_grpc else {}),
            **busy.told(),
            "brokerVersionDesc": VERSION_DESCRIPTION,
            "brokerVersion": str(VERSION),
            OUR_VERSION: PYROMQ_VERSION,
            "bootTimestamp": str(stats.started_at_ms),
            "startAcceptSendRequestTimeStamp": str(start_ms),
            "dispatchBehindBytes": "0",
            "dispatchMaxBuffer": "0",
            "pageCacheLockTimeMills": str(busy.slow_write_ms),
            **_write_buffer(store),
            "remainHowManyDataToFlush": human_bytes(_log_end(store) - store.flushed_position),
        }


def _log_end(store: MessageStore) -> int:
    """Return where the log ends for others; what is in a write buffer is not there yet."""
    return store.committed_position if store.is_buffered else store.max_position


def _write_buffer(store: MessageStore) -> dict[str, str]:
    """Return what is told of RocketMQ's pool of write buffers, of which one is ever needed here."""
    if not store.is_buffered:
        return {"remainTransientStoreBufferNumbs": str(2**31 - 1)}
    waiting_bytes = store.max_position - store.committed_position
    return {
        "remainTransientStoreBufferNumbs": str(
            store.settings.transient_store_pool_size - bool(waiting_bytes)
        ),
        "remainHowManyDataToCommit": human_bytes(waiting_bytes),
    }


def human_bytes(count: int) -> str:
    """Return a number of bytes as RocketMQ writes it for people."""
    if count < 1024:
        return f"{count} B"
    exponent = min((count.bit_length() - 1) // 10, 6)
    return f"{count / 1024**exponent:.1f} {' KMGTPE'[exponent]}iB"


def running_since(started_at_ms: int, now_ms: int) -> str:
    """Return for how long a broker runs, as RocketMQ writes it."""
    seconds = max(now_ms - started_at_ms, 0) // 1000
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"


def _traffic(stats: BrokerStats) -> dict[str, str]:
    totals = stats.totals
    # RocketMQ says 1 where nothing was put, as it divides by it.
    put = max(totals.put, 1)
    age_ms = stats.now_ms - stats.started_at_ms
    return {
        "runtime": running_since(stats.started_at_ms, stats.now_ms),
        "putMessageTimesTotal": str(put),
        "putMessageFailedTimes": "0",
        "putMessageSizeTotal": str(totals.put_bytes),
        "putMessageAverageSize": str(totals.put_bytes / put),
        "putMessageEntireTimeMax": "0",
        "getMessageEntireTimeMax": "0",
        # RocketMQ looks back a minute.
        "putMessageDistributeTime": "".join(f"{name}:0 " for name in _TIMES) if age_ms > 60_000 else "null",
        "putLatency99": "0.00",
        "putLatency999": "0.00",
        "putTps": _tps(stats, lambda of: of.put),
        "getFoundTps": _tps(stats, lambda of: of.found),
        "getMissTps": _tps(stats, lambda of: of.missed),
        "getTotalTps": " ".join(
            str(stats.tps(lambda of: of.found + of.missed, window_s) or 0.0) for window_s in _WINDOWS_S
        ),
        "getTransferedTps": _tps(stats, lambda of: of.got),
    }


def _tps(stats: BrokerStats, of: Callable[[MessageTotals], int]) -> str:
    """Return the rates of ten seconds, a minute and ten minutes; nothing for those that are not over yet."""
    rates = (stats.tps(of, window_s) for window_s in _WINDOWS_S)
    return " ".join("" if rate is None else str(rate) for rate in rates)


def _days(stats: BrokerStats) -> dict[str, str]:
    days = {
        "YesterdayMorning": stats.yesterday_morning,
        "TodayMorning": stats.this_morning,
        "TodayNow": stats.totals,
    }
    return {f"msgPutTotal{day}": str(totals.put) for day, totals in days.items()} | {
        f"msgGetTotal{day}": str(totals.got) for day, totals in days.items()
    }


def _queues(busy: Busy, waited_ms: int) -> dict[str, str]:
    table = {
        "EndTransactionQueueSize": str(busy.ends.size),
        "EndTransactionThreadPoolQueueCapacity": str(busy.ends.capacity),
        "queryThreadPoolQueueSize": "0",
        "queryThreadPoolQueueCapacity": _QUERY_CAPACITY,
        "queryThreadPoolQueueHeadWaitTimeMills": str(waited_ms),
    }
    for pool, queue in (("sendThreadPoolQueue", busy.sends), ("pullThreadPoolQueue", busy.pulls)):
        table |= {
            f"{pool}Size": str(queue.size),
            f"{pool}Capacity": str(queue.capacity),
            f"{pool}HeadWaitTimeMills": str(waited_ms),
        }
    return table


def _disk(store: MessageStore) -> dict[str, str]:
    ratio, use = str(store.disk_ratio), store.disk_use
    total, free = human_bytes(use.used_bytes + use.usable_bytes), human_bytes(use.usable_bytes)
    oldest = store.log.stored_at(store.min_position)
    return {
        LOG_START: str(store.min_position),
        LOG_END: str(_log_end(store)),
        "commitLogDiskRatio": ratio,
        f"commitLogDiskRatio_{store.log.folder}": ratio,
        "consumeQueueDiskRatio": ratio,
        "commitLogDirCapacity": f"Total : {total}, Free : {free}.",
        "earliestMessageTimeStamp": str(-1 if oldest is None else oldest),
    }


def _delays(store: MessageStore, delayed: Mapping[int, int]) -> dict[str, str]:
    # What was delivered was there, whether the replicas have all of it by now or not.
    ends = {
        level: max(offset, store.readable_end(system_names.SCHEDULE, level - 1))
        for level, offset in delayed.items()
    }
    return {f"scheduleMessageOffset_{level}": f"{offset},{ends[level]}" for level, offset in delayed.items()}
