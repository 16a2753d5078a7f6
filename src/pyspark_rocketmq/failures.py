"""Failures of reads and writes, told with option, topic, queue, offset, and what to do."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from pyromq.errors import NetworkError, NoRoute, PyroError, Refused, UnknownTopic
from pyromq.model import MessageQueue
from pyspark_rocketmq.source.source_options import Retries

T = TypeVar("T")


class ReadFailed(PyroError):
    """A topic could not be read; the first line says what to do."""


class WriteFailed(PyroError):
    """Rows could not be written; the first line says what to do."""


class TopicMissing(ReadFailed):
    """No broker that is there has a topic."""


class MessagesLost(ReadFailed):
    """Messages that should have been read are gone."""


def place(queue: MessageQueue, offset: int | None = None) -> str:
    """Return a queue, and an offset in it, in words."""
    at = "" if offset is None else f", offset {offset}"
    return f"topic {queue.topic!r}, queue {queue.queue_id} of {queue.broker_name}{at}"


def lost(queue: MessageQueue, offset: int, why: str) -> MessagesLost:
    """Return the error for messages that are gone."""
    return MessagesLost(
        f"failOnDataLoss: {place(queue, offset)}: {why}. To read on with what is there, set failOnDataLoss "
        "to 'false', or to 'report' to be told of each gap; to begin anew, use a new checkpoint"
    )


def is_passing(error: PyroError) -> bool:
    """Return whether a later try may do: the broker restarts, or moves."""
    return isinstance(error, NetworkError | NoRoute) or (isinstance(error, Refused) and error.retriable)


@contextmanager
def write_explained(where: str, timeout_ms: int) -> Iterator[None]:
    """Let a broker that did not come back in time be said with the place and the option that mattered."""
    try:
        yield
    except PyroError as error:
        if isinstance(error, UnknownTopic) and error.is_any_broker_known:
            raise _missing(error) from error
        if not is_passing(error):
            raise
        raise WriteFailed(
            f"{where}: {error} (tried for up to {timeout_ms} ms, see option sendTimeoutMs). When the "
            "broker is up, Spark's next try, or the query started again on its checkpoint, goes on"
        ) from error


def _missing(error: UnknownTopic) -> WriteFailed:
    return WriteFailed(
        f"topic {error.topic!r} does not exist at name server {error.name_servers}; is the name right? "
        f"`pyromq topic create {error.topic}` creates it; with option createTopics=true the first row does, "
        "where brokers have autoCreateTopicEnable=true"
    )


def with_retries(retries: Retries, work: Callable[[], T], doing: Callable[[], str]) -> T:
    """Return what `work` does; try again when that may help, so often and no more.

    `doing` names the option, the topic and the place, for the error in the end.
    """
    for left in range(retries.count, -1, -1):
        try:
            return work()
        except PyroError as error:
            cause = error.__cause__ if isinstance(error, ReadFailed) else error
            may_pass = isinstance(cause, PyroError) and is_passing(cause)
            if left and may_pass:
                time.sleep(retries.interval_ms / 1_000)
                continue
            if isinstance(error, ReadFailed):
                raise
            tries = f" (tried {retries.count + 1} times, see option retries)" if may_pass else ""
            raise ReadFailed(f"{doing()}: {error}{tries}") from error
    raise AssertionError("the last try returns or raises")
