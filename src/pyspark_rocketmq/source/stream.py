"""A stream of a topic: Spark asks how far it may read, plans a batch, and asks again.

`latestOffset(start)` comes when everything before `start` is safe, also at the very end of a query, and
`commit` does not; so that is where the group's progress is told to the brokers. While nothing is new the
question is held for a while, as Spark would ask again a hundred times a second. Everything else that Spark
calls is a function of its arguments and of the options, so that a batch that is run again is the same batch.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pyromq.errors import PyroError
from pyromq.model import MessageQueue
from pyromq.wire.bodies.offset_bodies import TopicOffset
from pyspark_rocketmq.failures import TopicMissing, place, with_retries
from pyspark_rocketmq.plain_errors import plain_errors
from pyspark_rocketmq.source.admitting import share, share_bytes
from pyspark_rocketmq.source.batch_read import reading_of
from pyspark_rocketmq.source.bounds import Losses, known_edges, resolve
from pyspark_rocketmq.source.columns import Columns
from pyspark_rocketmq.source.places import key_of
from pyspark_rocketmq.source.planning import QueueRange, RangeTask, pack
from pyspark_rocketmq.source.source_cluster import SourceCluster
from pyspark_rocketmq.source.source_options import SourceOptions
from pyspark_rocketmq.source.stream_offset import StreamOffset, read_offset

_log = logging.getLogger("pyspark_rocketmq")

#: Seconds for which a question without news is held; another source of the same query waits so long too.
WAIT_S: Final = 1.0
#: Seconds after which queues and brokers that are new are looked for.
LOOK_S: Final = 10.0
#: Tasks that a batch has at most, unless maxPartitions says more. Not by the machine: see `planning`.
TASKS_AT_ONCE: Final = 8
#: Messages by whose size those behind them are judged.
SAMPLE: Final = 32


@plain_errors(
    "initialOffset", "latestOffset", "prepareForTriggerAvailableNow", "partitions", "read", "commit"
)
class TopicStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans on the driver, in one process for the life of a query, and reads on the executors."""

    def __init__(self, options: SourceOptions, columns: Columns) -> None:
        self._options = options
        self._reading = reading_of(options, columns)
        self._losses = Losses(options.on_loss)
        self._cluster: SourceCluster | None = None
        self._queues: list[MessageQueue] = []
        self._looked_at = -LOOK_S
        self._first: dict[str, Any] | None = None
        #: Where a query with Trigger.AvailableNow ends.
        self._target: dict[MessageQueue, int] | None = None
        self._ends: dict[MessageQueue, int] = {}
        self._published: dict[MessageQueue, int] | None = None
        self._has_told_of_others = False
        self._last_batch_at = time.monotonic()

    # What Spark calls

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name
        """Return where the stream begins; the same when it is asked again."""
        if self._first is None:
            self._first = self._retried(self._begin).to_json()
        return self._first

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """Return a limit if the options have one; `latestOffset` looks at the options themselves."""
        admission = self._options.admission
        if admission.messages_max is not None:
            return ReadMaxRows(admission.messages_max)
        if admission.bytes_max is not None:
            return ReadMaxBytes(admission.bytes_max)
        if admission.messages_min is not None:
            return ReadMinRows(admission.messages_min)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return how far the next batch goes; `start` itself when there is nothing to do."""
        begin = read_offset(start)
        self._publish(begin)
        is_limited = not isinstance(limit, ReadAllAvailable)
        end = self._retried(lambda: self._next_end(begin, is_limited=is_limited))
        return start if end is None else end.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Take what is there now as the end of the query."""

        def look() -> dict[MessageQueue, int]:
            edges = known_edges(self._open().edges(self._find_queues()))
            return {queue: ends.max_offset for queue, ends in edges.items()}

        self._target = self._retried(look)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  Spark's name
        """Return where the queues end, for the query's progress; the gaps too, if they are to be reported."""
        if not self._ends:
            return None
        report = StreamOffset(self._ends).to_json()
        if self._losses.gaps:
            report["lost"] = {key_of(queue): gaps for queue, gaps in sorted(self._losses.gaps.items())}
        return report

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch."""
        begin, finish = read_offset(start), read_offset(end)
        ranges = []
        for queue, offset in finish.next.items():
            known = begin.next.get(queue)
            # A queue that came later, or anew, is read from its beginning.
            is_new = known is None or begin.incarnation(queue) != finish.incarnation(queue)
            first = 0 if is_new or known is None else known
            ranges.append(QueueRange(queue, first, offset, finish.marks.get(queue), is_new))
        return list(pack(ranges, self._options.tasks, TASKS_AT_ONCE))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Pull a task's ranges and yield Arrow batches."""
        if isinstance(partition, RangeTask):
            yield from self._reading.ranges(partition.ranges)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark does not call this for the last batch. See `latestOffset`."""

    def stop(self) -> None:
        """End the connections."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    # The next end

    def _begin(self) -> StreamOffset:
        cluster = self._open()
        edges = known_edges(cluster.edges(self._find_queues()))
        return StreamOffset(resolve(cluster, self._options.start, edges, self._losses))

    def _next_end(self, begin: StreamOffset, *, is_limited: bool) -> StreamOffset | None:
        deadline = time.monotonic() + WAIT_S
        while True:
            edges = self._edges(begin)
            again = self._recreated_by_end(begin, edges)
            waiting = {
                queue: self._limit(queue, ends.max_offset) - self._first_unread(begin, queue, ends, again)
                for queue, ends in edges.items()
            }
            waiting = {queue: count for queue, count in waiting.items() if count > 0}
            is_due = self._is_due(sum(waiting.values()), is_limited=is_limited)
            if (waiting and is_due) or again:
                return self._admit(begin, edges, waiting, again, is_limited=is_limited)
            left = deadline - time.monotonic()
            if left <= 0 or self._target is not None:
                # New queues are part of the offset even when they are empty, and no reason for a batch.
                return None
            self._open().wait_for_news({queue: ends.max_offset for queue, ends in edges.items()}, left)

    def _edges(self, begin: StreamOffset) -> dict[MessageQueue, TopicOffset]:
        """Return where the queues end; those of a broker that is away are left where they are."""
        queues = self._queues
        if time.monotonic() - self._looked_at >= LOOK_S or not queues:
            queues = self._find_queues(begin.next)
        if self._target is not None:
            queues = [queue for queue in queues if queue in self._target]
        found = self._open().edges(queues)
        edges = {queue: ends for queue, ends in found.items() if isinstance(ends, TopicOffset)}
        failures = {queue: error for queue, error in found.items() if isinstance(error, PyroError)}
        if failures and not (edges and self._target is None):
            known_edges(found)
        for queue, error in failures.items():
            _log.warning("%s is left for later: %s", place(queue), error)
        self._ends = {queue: ends.max_offset for queue, ends in edges.items()}
        for queue, ends in edges.items():
            self._check_lost(begin, queue, ends)
        return edges

    def _check_lost(self, begin: StreamOffset, queue: MessageQueue, ends: TopicOffset) -> None:
        known = begin.next.get(queue)
        if known is not None and known < ends.min_offset <= ends.max_offset:
            why = f"the first message that is still there is {ends.min_offset}"
            if (known, ends.min_offset) not in self._losses.gaps.get(queue, []):
                self._losses.note(queue, known, ends.min_offset, why)

    def _recreated_by_end(
        self, begin: StreamOffset, edges: Mapping[MessageQueue, TopicOffset]
    ) -> set[MessageQueue]:
        """Return the queues that end before what was read of them."""
        found = set()
        for queue, ends in edges.items():
            known = begin.next.get(queue)
            if known is not None and ends.max_offset < known:
                self._note_recreated(queue, known, f"the queue ends at {ends.max_offset} now")
                found.add(queue)
        return found

    def _note_recreated(self, queue: MessageQueue, known: int, seen: str) -> None:
        self._losses.note(
            queue,
            known,
            known,
            f"{seen}: the topic was deleted and created again, or its broker lost messages",
        )

    @staticmethod
    def _first_unread(
        begin: StreamOffset, queue: MessageQueue, ends: TopicOffset, again: set[MessageQueue]
    ) -> int:
        known = begin.next.get(queue)
        return ends.min_offset if known is None or queue in again else max(known, ends.min_offset)

    def _limit(self, queue: MessageQueue, end: int) -> int:
        return end if self._target is None else min(end, self._target[queue])

    def _is_due(self, waiting: int, *, is_limited: bool) -> bool:
        admission = self._options.admission
        if not is_limited or admission.messages_min is None or self._target is not None:
            return True
        delay_ms = (time.monotonic() - self._last_batch_at) * 1_000
        return waiting >= admission.messages_min or delay_ms >= admission.delay_ms_max

    def _admit(
        self,
        begin: StreamOffset,
        edges: Mapping[MessageQueue, TopicOffset],
        waiting: Mapping[MessageQueue, int],
        again: set[MessageQueue],
        *,
        is_limited: bool,
    ) -> StreamOffset:
        cluster, admission = self._open(), self._options.admission
        again = again | self._recreated_by_mark(begin, waiting)
        firsts = {queue: self._first_unread(begin, queue, edges[queue], again) for queue in edges}
        waiting = {
            queue: max(self._limit(queue, edges[queue].max_offset) - firsts[queue], 0)
            for queue in {*waiting, *again}
        }
        taken = dict(waiting)
        if is_limited and admission.messages_max is not None:
            taken = share(taken, admission.messages_max)
        if is_limited and admission.bytes_max is not None:
            samples = cluster.samples({queue: firsts[queue] for queue in taken}, SAMPLE)
            sizes = {
                queue: sum(one.size for one in found) / len(found)
                for queue, found in samples.items()
                if found
            }
            taken = share_bytes(taken, sizes, admission.bytes_max)
        self._last_batch_at = time.monotonic()
        moved = {queue: firsts[queue] + count for queue, count in taken.items()}
        lasts = cluster.samples({queue: end - 1 for queue, end in moved.items() if end > 0}, 1)
        marks = {
            queue: found[0].position
            for queue, found in lasts.items()
            if found and found[0].queue_offset == moved[queue] - 1
        }
        kept = {queue: mark for queue, mark in begin.marks.items() if queue not in moved}
        counts = {
            queue: begin.incarnation(queue) + (queue in again) for queue in {*begin.incarnations, *again}
        }
        return StreamOffset({**begin.next, **moved}, kept | marks, counts)

    def _recreated_by_mark(
        self, begin: StreamOffset, waiting: Mapping[MessageQueue, int]
    ) -> set[MessageQueue]:
        """Return the queues where another message is now before the offset that is read next."""
        marked = {queue: begin.next[queue] - 1 for queue in waiting if queue in begin.marks}
        found = set()
        for queue, messages in self._open().samples(marked, 1).items():
            # A message that is not there any more, or not readable now, proves nothing.
            if not messages or messages[0].queue_offset != marked[queue]:
                continue
            seen, mark = messages[0].position, begin.marks[queue]
            if seen != mark:
                self._note_recreated(queue, begin.next[queue], f"log position {seen} instead of {mark}")
                found.add(queue)
        return found

    # What lasts as long as the query

    def _open(self) -> SourceCluster:
        if self._cluster is None:
            self._cluster = SourceCluster(self._options.connection, self._options.group)
        return self._cluster

    def _find_queues(self, known: Iterable[MessageQueue] = ()) -> list[MessageQueue]:
        """Return the queues there are now, and those there were.

        A topic that the name servers do not know any more, but that was read (`known`), may come back with
        its broker.
        """
        try:
            found = self._open().queues(self._options.choice)
        except TopicMissing:
            found = list(known)
            if not self._queues and not found:
                raise
        self._queues = sorted({*self._queues, *found})
        self._looked_at = time.monotonic()
        return self._queues

    def _publish(self, begin: StreamOffset) -> None:
        """Tell the brokers how far the group is. What fails is told with the next batch."""
        if self._options.group is None or begin.next == self._published:
            return
        try:
            if self._published is None:
                self._find_queues(begin.next)
                self._open().introduce()
            known = self._published or {}
            changed = {queue: at for queue, at in begin.next.items() if known.get(queue) != at}
            self._tell_of_others(known, changed)
            failures = self._open().publish(changed)
            self._published = {queue: at for queue, at in begin.next.items() if queue not in failures}
        except PyroError as error:
            failures = dict.fromkeys(begin.next, error)
        for queue, failure in failures.items():
            _log.warning("progress of group %s in %s was not told: %s", self._options.group, queue, failure)

    def _tell_of_others(self, known: Mapping[MessageQueue, int], changed: Mapping[MessageQueue, int]) -> None:
        """Warn, once, when the group's progress is not what this query wrote: somebody else writes it too."""
        queue = next((queue for queue in changed if queue in known), None)
        if self._has_told_of_others or queue is None:
            return
        found = self._open().committed([queue])[queue]
        if found in (None, known[queue]):
            return
        self._has_told_of_others = True
        _log.warning(
            "groupId %s is used by another query or consumer too: %s stood at %d when this query wrote it, "
            "and stands at %d now. Both read everything, but lag and progress of the group are those of "
            "whoever wrote last; give each query a groupId of its own",
            self._options.group,
            queue,
            known[queue],
            found,
        )

    def _retried(self, work: Any) -> Any:
        option = self._options.choice.option
        return with_retries(self._options.retries, work, lambda: f"{option} {self._options.choice.topics}")
