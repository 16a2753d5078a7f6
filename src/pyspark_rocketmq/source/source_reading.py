"""An executor's read: it pulls the ranges of a task, and turns them into Arrow batches.

Connections are kept for the life of the process, which runs many tasks. A pull brings 32 messages from an
Apache broker, so as many as make a mebibyte are on their way together; where an answer has fewer than the one
before, the offsets of the others were guessed wrong, and they are asked for again.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.plans.admin import lookups as admin
from pyromq.client.plans.admin.lookups import KeyQuery
from pyromq.client.plans.pull_plans import Pulled, PullQuery, pull_deadline, pull_records
from pyromq.client.sync.runner import Runner
from pyromq.codes import ResponseCode
from pyromq.errors import ServerFailed
from pyromq.filter.tags import ALL, parse_tags
from pyromq.model import PullStatus, ReceivedMessage
from pyspark_rocketmq.failures import lost, place, with_retries
from pyspark_rocketmq.source.bounds import Losses
from pyspark_rocketmq.source.columns import Columns
from pyspark_rocketmq.source.gathering import Gathering, Taken, gathering
from pyspark_rocketmq.source.planning import KeyTask, QueueRange
from pyspark_rocketmq.source.source_cluster import open_session
from pyspark_rocketmq.source.source_options import ClusterConnection, Filter, OnLoss, Retries

_log = logging.getLogger("pyspark_rocketmq")

#: What one pull asks for; Apache's brokers give 32 messages at most.
PULL_COUNT: Final = 16_384
PULL_BYTES: Final = 1 << 20
#: What all pulls that are on their way together may bring, and how many they may be.
AHEAD_BYTES: Final = 2 << 20
AHEAD_MAX: Final = 64
#: Milliseconds that a search by a key may take.
QUERY_MS: Final = 30_000

#: The clients of this process.
_clients: dict[tuple[ClusterConnection, str | None], Runner] = {}


def client(connection: ClusterConnection, group: str | None) -> Runner:
    """Return this process's client for a cluster; a child of `fork` opens connections of its own."""
    found = _clients.get((connection, group))
    if found is None:
        found = Runner("spark executor", partial(open_session, connection, group))
        found.start()
        _clients[connection, group] = found
    return found


@dataclass(frozen=True, slots=True)
class ReadTerms:
    """The instructions of a read; all of it is sent to the executors."""

    connection: ClusterConnection
    group: str | None
    only: Filter
    on_loss: OnLoss
    retries: Retries
    columns: Columns

    def ranges(self, ranges: tuple[QueueRange, ...]) -> Iterator[pa.RecordBatch]:
        """Pull ranges and yield them as Arrow batches."""
        gathered = gathering(self.columns, self.connection.body_bytes_max)
        for one in ranges:
            for _ in _RangeReader(self, one, gathered).read():
                yield from gathered.full()
        yield from gathered.rest()

    def keys(self, task: KeyTask) -> Iterator[pa.RecordBatch]:
        """Find messages by their keys and yield them as Arrow batches, each message once."""
        found: dict[tuple[str, str], ReceivedMessage] = {}
        for key in task.keys:
            messages = with_retries(
                self.retries,
                partial(self._search, task, key),
                partial("keys: topic {!r}, key {!r}".format, task.topic, key),
            )
            found |= {(one.queue.broker_name, one.offset_message_id): one for one in messages}
        if found:
            yield self.columns.batch(list(found.values()))

    def _search(self, task: KeyTask, key: str) -> list[ReceivedMessage]:
        runner = client(self.connection, self.group)
        query = KeyQuery(task.topic, key, begin_ms=task.begin_ms, end_ms=task.end_ms)
        deadline = runner.session.deadline(None, QUERY_MS)
        return runner.run(admin.query_all_messages(runner.session, query, deadline))


class _RangeReader:
    """Reads one range, and knows how many messages the next answer will have."""

    def __init__(self, reading: ReadTerms, asked: QueueRange, gathered: Gathering) -> None:
        self._reading = reading
        self._asked = asked
        self._gathered = gathered
        self._at = asked.start
        only = reading.only
        self._tags = frozenset() if only.sql is not None else frozenset(parse_tags(only.tags))
        # A broker leaves messages out of a retry topic that its group does not want any more.
        self._has_all = (
            only.sql is None and only.tags == ALL and not asked.queue.topic.startswith(RETRY_TOPIC_PREFIX)
        )
        self._losses = Losses(reading.on_loss)
        self._runner = client(reading.connection, reading.group)
        #: Messages that the last answer had, and pulls that are asked together.
        self._stride = 0
        self._ahead = 1

    def read(self) -> Iterator[None]:
        """Have all answers gathered; yields after each."""
        while self._at < self._asked.end:
            wanted = self._next_pulls()
            retries = self._reading.retries
            answers = with_retries(
                retries,
                partial(self._pull, wanted),
                lambda: f"reading {place(self._asked.queue, self._at)}",
            )
            for ask, answer in zip(wanted, answers, strict=True):
                if ask.offset != self._at or self._at >= self._asked.end:
                    break
                self._take(answer)
                yield

    def _next_pulls(self) -> list[PullQuery]:
        queue, only, end = self._asked.queue, self._reading.only, self._asked.end
        stride = self._stride or end - self._at
        places = range(self._at, end, stride)[: self._ahead if self._has_all else 1]
        return [
            PullQuery(
                queue,
                offset,
                min(end - offset, PULL_COUNT),
                only.tags,
                sql=only.sql,
                bytes_max=PULL_BYTES,
            )
            for offset in places
        ]

    def _pull(self, wanted: list[PullQuery]) -> list[Pulled]:
        session = self._runner.session
        answers = self._runner.run(pull_records(session, wanted, pull_deadline(session, 0, None)))
        first = answers[0]
        if first.status is PullStatus.NO_NEW_MESSAGE and first.next_offset <= self._at:
            # A broker that has just started may still be looking for its end.
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR,
                f"the queue ends at {first.max_offset}, and was to be read up to {self._asked.end}",
            )
        return answers

    def _take(self, answer: Pulled) -> None:
        """Gather the messages of an answer that belong to the range, and go on behind them."""
        asked, at = self._asked, self._at
        if answer.status is PullStatus.OFFSET_ILLEGAL:
            self._pass_over(answer)
            return
        if answer.next_offset <= at:
            raise lost(asked.queue, at, f"the broker gives nothing there and goes on at {answer.next_offset}")
        taken = self._gathered.add(answer.records, asked.queue.broker_name, self._tags, asked.end)
        next_offset = answer.next_offset if taken.next_offset < 0 else taken.next_offset
        self._learn(next_offset - at, len(answer.records))
        self._at = min(next_offset, asked.end)
        if self._has_all and taken.row_count != self._at - at:
            missing = self._at - at - taken.row_count
            self._losses.note(asked.queue, at, self._at, f"{missing} of {self._at - at} messages are missing")
        self._check_mark(taken)

    def _learn(self, stride: int, size: int) -> None:
        self._stride = stride
        self._ahead = max(1, min(AHEAD_BYTES // max(size, 1), AHEAD_MAX))

    def _pass_over(self, answer: Pulled) -> None:
        asked, at = self._asked, self._at
        goes_on = min(answer.next_offset, asked.end) if answer.next_offset > at else asked.end
        if answer.next_offset > at and asked.is_new:
            self._at = goes_on
            return
        why = (
            f"the broker has {answer.min_offset} to {answer.max_offset} now, and the read was planned up to "
            f"{asked.end}"
        )
        self._losses.note(asked.queue, at, goes_on, why)
        self._at = goes_on

    def _check_mark(self, taken: Taken) -> None:
        asked = self._asked
        if asked.mark is None or not taken.row_count or taken.last_offset != asked.end - 1:
            return
        if taken.last_position != asked.mark:
            self._losses.note(
                asked.queue,
                asked.end - 1,
                asked.end,
                f"another message is there now (log position {taken.last_position}, not {asked.mark}): the "
                "topic was deleted and created again",
            )
