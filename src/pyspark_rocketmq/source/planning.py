"""From the ranges of queues to tasks: small ones share a task, big ones are split.

A task of Python costs about 50 ms, however little it does, so one for each queue would be slow. The ranges
are laid end to end and cut into pieces of one length. The cut depends on the ranges and the options alone: a
batch of a stream that is run again must be split in the same way.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import InputPartition

from pyromq.model import MessageQueue
from pyspark_rocketmq.source.source_options import Tasks

#: Messages for which a task of its own pays.
MESSAGES_PER_TASK: Final = 50_000
#: A task should not run for minutes, and be lost with all it did.
MESSAGES_PER_TASK_MAX: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class QueueRange:
    """The messages of one queue from `start` up to, not including, `end`.

    `mark` is where in the log the last of them is, if that is known. What is missing before the first message
    of a queue that was not read yet (`is_new`) is no loss.
    """

    queue: MessageQueue
    start: int
    end: int
    mark: int | None = None
    is_new: bool = False


@dataclass
class RangeTask(InputPartition):
    """The ranges that one task reads, in this order."""

    ranges: tuple[QueueRange, ...]


@dataclass
class KeyTask(InputPartition):
    """The messages of a topic with one of the keys, stored within a range of time."""

    topic: str
    keys: tuple[str, ...]
    begin_ms: int
    end_ms: int


def pack(ranges: Iterable[QueueRange], tasks: Tasks, at_once: int) -> list[RangeTask]:
    """Return tasks of about the same length; `at_once` is how many can run at the same time, as a guess."""
    wanted = sorted((one for one in ranges if one.start < one.end), key=lambda one: one.queue)
    total = sum(one.end - one.start for one in wanted)
    if not total:
        return []
    count = min(max(at_once, -(-total // MESSAGES_PER_TASK_MAX)), -(-total // MESSAGES_PER_TASK))
    if tasks.count_max is not None:
        # Said by the user: so many can run, and each is worth while.
        count = min(tasks.count_max, max(count, -(-total // MESSAGES_PER_TASK)))
    count = min(max(count, tasks.count_min or 1), total)
    cuts = [total * number // count for number in range(1, count + 1)]
    return [RangeTask(piece) for piece in _cut(wanted, cuts)]


def _cut(ranges: Sequence[QueueRange], cuts: Sequence[int]) -> Iterable[tuple[QueueRange, ...]]:
    left = list(reversed(ranges))
    done = 0
    for cut in cuts:
        piece: list[QueueRange] = []
        while done < cut:
            one = left.pop()
            room = cut - done
            if one.end - one.start > room:
                middle = one.start + room
                left.append(QueueRange(one.queue, middle, one.end, one.mark))
                one = QueueRange(one.queue, one.start, middle, None, one.is_new)
            piece.append(one)
            done += one.end - one.start
        yield tuple(piece)
