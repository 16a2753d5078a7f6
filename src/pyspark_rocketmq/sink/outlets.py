"""The two ways in which a part of a write leaves an executor.

    exactly once    staged at the brokers where nobody reads it, until the driver publishes all parts together
    at least once   sent, and acknowledged by the broker; a task that is run again sends again, the same ids

Clients are kept for the life of the process: Spark runs many tasks in one.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeVar

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from pyromq.client.sync.encoded import EncodedSends
from pyromq.client.sync.staged import StagedPart, StagedSends
from pyromq.errors import NoRoute, PyroError
from pyromq.model import MessageQueue
from pyromq.wire.batch import decode_batch
from pyspark_rocketmq.failures import is_passing, write_explained
from pyspark_rocketmq.failures import place as place_of
from pyspark_rocketmq.sink.sink_options import DeliveryGuarantee, SinkOptions
from pyspark_rocketmq.source.source_options import ClusterConnection

log = logging.getLogger(__name__)

T = TypeVar("T")
#: A topic that nobody knows may be that of a broker which is just started again; or a wrong name.
NO_ROUTE_MS_MAX = 15_000
_PAUSE_S = 0.3

#: Spark waits for it, and what is not let go of expires by itself.
ABORT_TIMEOUT_MS = 10_000
#: The producers' group that rows are sent in the name of.
GROUP = "pyspark_rocketmq"


@dataclass(frozen=True, slots=True)
class WritePart:
    """The part of a write that a task does. The batch write of one DataFrame is a query with one batch."""

    query: str
    batch: int
    part: int
    attempt: int


@dataclass(frozen=True)
class WrittenPart(WriterCommitMessage):
    """A task's message to the driver: the number of rows written, and the chunks staged."""

    row_count: int
    staged: StagedPart | None


class Outlet(Protocol):
    """Takes the messages of a part."""

    #: Whether messages that are delivered later may be in a batch with others.
    batches_delayed: bool

    def is_needed(self) -> bool:
        """Whether rows are still to be written, for they may be published already."""

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that a topic's messages may go to, in an order that is the same for all parts."""

    def put(self, queue: MessageQueue, units: bytes, count: int) -> None:
        """Take a batch of messages."""

    def finish(self) -> StagedPart | None:
        """Return what the driver must know of the part, once all is put."""


class StagedOutlet:
    """Stages, for the driver to publish."""

    batches_delayed = True

    def __init__(self, options: SinkOptions, place: WritePart) -> None:
        self._writer = staged_sends(options.connection).writer(
            query=place.query,
            batch=place.batch,
            part=place.part,
            attempt=place.attempt,
            timeout_ms=options.timeout_ms,
        )
        self._topics = () if options.topic is None else (options.topic,)
        self._timeout_ms = options.timeout_ms

    def is_needed(self) -> bool:
        """Join the batch; one that is decided takes nothing more, and is published as it is."""
        with write_explained(f"topic {', '.join(self._topics) or 'of each row'}", self._timeout_ms):
            patiently(lambda: self._writer.open(self._topics), self._timeout_ms)
        return self._writer.is_needed

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that all parts of the batch use."""
        with write_explained(f"topic {topic!r}", self._timeout_ms):
            return patiently(lambda: self._writer.queues(topic), self._timeout_ms)

    def put(self, queue: MessageQueue, units: bytes, count: int) -> None:
        """Stage a chunk."""
        with write_explained(place_of(queue), self._timeout_ms):
            self._writer.stage(queue, units, count)

    def finish(self) -> StagedPart:
        """Return what is to be published."""
        return self._writer.finish()


class SentOutlet:
    """Sends, and waits for each acknowledgement."""

    batches_delayed = False

    def __init__(self, options: SinkOptions) -> None:
        self._sends = encoded_sends(options.connection)
        self._timeout_ms = options.timeout_ms

    def is_needed(self) -> bool:
        """Nobody knows what was sent before."""
        return True

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that the topic has now."""
        with write_explained(f"topic {topic!r}", self._timeout_ms):
            return patiently(lambda: self._sends.queues(topic, timeout_ms=self._timeout_ms), self._timeout_ms)

    def put(self, queue: MessageQueue, units: bytes, count: int) -> None:
        """Send a batch; a single message goes by itself, for it may be one that is delivered later."""
        with write_explained(place_of(queue), self._timeout_ms):
            if count == 1:
                self._sends.send_unit(queue, decode_batch(units)[0], timeout_ms=self._timeout_ms)
            else:
                self._sends.send_units(queue, units, timeout_ms=self._timeout_ms)

    def finish(self) -> None:
        """All of it is there already."""


def open_outlet(options: SinkOptions, place: WritePart) -> Outlet:
    """Return the way out that an option asks for."""
    if options.delivery is DeliveryGuarantee.EXACTLY_ONCE:
        return StagedOutlet(options, place)
    return SentOutlet(options)


def patiently(work: Callable[[], T], timeout_ms: int) -> T:
    """Return what `work` does; try again while a broker may be restarting, which has no routes meanwhile."""
    began = time.monotonic()
    while True:
        try:
            return work()
        except PyroError as error:
            patience_ms = min(timeout_ms, NO_ROUTE_MS_MAX) if isinstance(error, NoRoute) else timeout_ms
            if not is_passing(error) or (time.monotonic() - began) * 1_000 > patience_ms:
                raise
        time.sleep(_PAUSE_S)


# On the driver


def publish(options: SinkOptions, messages: list[WriterCommitMessage | None]) -> None:
    """Let out all parts of a batch, together; a batch that is out already stays as it is."""
    parts = _staged(messages)
    if parts:
        where = f"batch {parts[0].batch} of query {parts[0].query}, at its home {parts[0].home}"
        with write_explained(where, options.timeout_ms):
            staged_sends(options.connection).publish(parts, timeout_ms=options.timeout_ms)


def abort(options: SinkOptions, messages: list[WriterCommitMessage | None]) -> None:
    """Let go of what is staged, unless it was published: Spark aborts too when a publish seemed to fail.

    What cannot be let go of now expires, and Spark has an error to show that matters more.
    """
    parts = _staged(messages)
    if parts:
        try:
            staged_sends(options.connection).abort(parts, timeout_ms=ABORT_TIMEOUT_MS)
        except PyroError as error:
            log.warning("what was staged is not let go of, and expires later: %s", error)


def _staged(messages: list[WriterCommitMessage | None]) -> list[StagedPart]:
    """Return the staged parts; a task that failed has no message."""
    return [
        message.staged
        for message in messages
        if isinstance(message, WrittenPart) and message.staged is not None
    ]


# Clients


@lru_cache(maxsize=16)
def staged_sends(connection: ClusterConnection) -> StagedSends:
    """Return the client of this process."""
    sends = StagedSends(connection.name_server, connection.settings())
    sends.start()
    return sends


@lru_cache(maxsize=16)
def encoded_sends(connection: ClusterConnection) -> EncodedSends:
    """Return the client of this process."""
    sends = EncodedSends(GROUP, connection.name_server, connection.settings())
    sends.start()
    return sends


def this_part(query: str, batch: int) -> WritePart:
    """Return which part the task is that runs here."""
    task = TaskContext.get()
    if task is None:
        return WritePart(query, batch, 0, 0)
    return WritePart(query, batch, task.partitionId(), task.attemptNumber())
