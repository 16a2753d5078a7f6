"""The offset of a stream, as Spark keeps it in the checkpoint.

    {"v": 1, "inc": {"orders/broker-a/1": 1},
     "at": {"orders/broker-a/0": 88213}, "q": {"orders/broker-a/0": 23, "orders/broker-a/1": 0}}

`q` is the offset that is read next. `at` is the place in the log of the message before it: when another one
is there, the topic was deleted and created again. `inc` counts how often that was. Spark compares offsets as
text, so keys are sorted, and what is zero or unknown is left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyromq.errors import ConfigError
from pyromq.model import MessageQueue
from pyspark_rocketmq.source.places import key_of, queue_of

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next offset of each queue; its mark and its incarnation, where there is one."""

    next: Mapping[MessageQueue, int]
    marks: Mapping[MessageQueue, int] = field(default_factory=dict)
    incarnations: Mapping[MessageQueue, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as Spark keeps it."""
        return {
            "v": VERSION,
            "inc": _by_key({queue: count for queue, count in self.incarnations.items() if count}),
            "at": _by_key(self.marks),
            "q": _by_key(self.next),
        }

    def incarnation(self, queue: MessageQueue) -> int:
        """Return how often the queue's topic was created again."""
        return self.incarnations.get(queue, 0)


def read_offset(kept: Mapping[str, Any]) -> StreamOffset:
    """Return what Spark kept; raise ConfigError when another source, or a newer version, wrote it."""
    if kept.get("v") != VERSION:
        raise ConfigError(
            f"the checkpoint's offset is of version {kept.get('v')!r}, and this source reads {VERSION}; did "
            "another source write it, or a newer pyspark_rocketmq? Give the query a checkpoint of its own"
        )
    return StreamOffset(
        _by_queue(kept.get("q", {})), _by_queue(kept.get("at", {})), _by_queue(kept.get("inc", {}))
    )


def _by_key(table: Mapping[MessageQueue, int]) -> dict[str, int]:
    return {key_of(queue): table[queue] for queue in sorted(table)}


def _by_queue(table: Mapping[str, int]) -> dict[MessageQueue, int]:
    return {queue_of(key): number for key, number in table.items()}
