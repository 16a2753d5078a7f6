"""What a broker says of itself when it is asked for its runtime (28), by RocketMQ's names."""

from typing import Final

from pyromq.store.store import MessageStore

#: Where the log begins, and where it ends: what a slave asks its master.
LOG_START: Final = "commitLogMinOffset"
LOG_END: Final = "commitLogMaxOffset"


def runtime_of(store: MessageStore) -> dict[str, str]:
    """Return what is known of a broker's state, as text."""
    ratio = str(store.disk_ratio)
    return {
        LOG_START: str(store.min_position),
        LOG_END: str(store.max_position),
        "commitLogDiskRatio": ratio,
        "consumeQueueDiskRatio": ratio,
        "dispatchBehindBytes": "0",
        "remainHowManyDataToFlush": f"{store.max_position - store.flushed_position} B",
    }
