"""Reading a whole topic with a group's progress: all queues in turn, committed as they are finished."""

import logging
from dataclasses import dataclass

from pyromq.client.cursors import Cursors
from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.plans import progress
from pyromq.client.plans.pull import Wanted, pull_all, pull_deadline
from pyromq.client.session import Session
from pyromq.client.steps import Deadline, Pause, Plan
from pyromq.errors import NetworkError, NoRoute, PyroError
from pyromq.filter.tags import ALL
from pyromq.model import ConsumeFrom, MessageQueue, PullResult, ReceivedMessage

_log = logging.getLogger("pyromq.client")
#: Between two looks at queues that are all empty. Holding one pull per queue instead would need a socket for
#: each on the blocking face.
PAUSE_S_FIRST = 0.01
PAUSE_S_MAX = 0.5


@dataclass(frozen=True, slots=True)
class Start:
    """Where a group begins in a queue that it has not read yet."""

    where: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class TopicWanted:
    """What to read of a topic."""

    topic: str
    tags: str = ALL
    count: int = 32


def poll(
    session: Session, start: Start, cursors: Cursors, wanted: TopicWanted, deadline: Deadline
) -> Plan[list[ReceivedMessage]]:
    """Return the next messages of one queue, or none when the deadline passed without any.

    All that was handed out before counts as finished. Queues whose broker fails are left for later; when all
    of them fail, the last failure is raised. A topic that is not there may have been made just now, and name
    servers hear of it a little later: NoRoute is raised when the deadline passed.
    """
    cursors.finish()
    cursors.take_back()
    yield from commit_when_due(session, cursors)
    pause_s = PAUSE_S_FIRST
    while True:
        try:
            messages = yield from _look_once(session, start, cursors, wanted)
        except NoRoute:
            if deadline.has_passed:
                raise
        else:
            if messages or deadline.has_passed:
                return messages
        yield Pause(min(pause_s, deadline.left_s))
        pause_s = min(2 * pause_s, PAUSE_S_MAX)


def commit_when_due(session: Session, cursors: Cursors) -> Plan[None]:
    """Commit what is finished, if the last time was long enough ago."""
    if session.clock.monotonic() < cursors.commit_at:
        return
    cursors.commit_at = session.clock.monotonic() + session.settings.persist_consumer_offset_interval / 1_000
    yield from commit_finished(session, cursors)


def commit_finished(session: Session, cursors: Cursors) -> Plan[None]:
    """Commit what is finished; a broker that fails is left for the next time."""
    finished = dict(cursors.to_commit())
    failures = yield from progress.commit_all(session, finished)
    for queue, offset in finished.items():
        if queue not in failures:
            cursors.committed(queue, offset)


def _look_once(
    session: Session, start: Start, cursors: Cursors, wanted: TopicWanted
) -> Plan[list[ReceivedMessage]]:
    api_deadline = session.deadline(None, session.settings.mq_client_api_timeout)
    queues = yield from progress.subscribe_queues(session, wanted.topic, api_deadline)
    failures: list[PyroError] = []
    for queue in cursors.in_turn(wanted.topic, tuple(queues)):
        try:
            result = yield from _pull_next(session, start, cursors, queue, wanted)
        except (NetworkError, NoRoute) as error:
            _log.warning("queue %s was not read: %s", queue, error)
            failures.append(error)
            continue
        if result.messages:
            return result.messages
    if len(failures) == len(queues):
        raise failures[-1]
    return []


def _pull_next(
    session: Session, start: Start, cursors: Cursors, queue: MessageQueue, wanted: TopicWanted
) -> Plan[PullResult]:
    cursor = cursors.get(queue)
    if cursor is None:
        offset, committed = yield from starting_offset(session, start, queue)
        cursor = cursors.place(queue, offset, committed)
    ask_for = Wanted(queue, cursor.next_offset, wanted.count, wanted.tags)
    result = yield from pull_all(session, ask_for, pull_deadline(session, 0, None))
    cursors.pulled(queue, result.next_offset, result.messages)
    return result


def starting_offset(session: Session, start: Start, queue: MessageQueue) -> Plan[tuple[int, int | None]]:
    """Return where to begin in a queue, and what of it the group has committed, if anything."""
    deadline = session.deadline(None, session.settings.mq_client_api_timeout)
    known = yield from progress.committed(session, queue, deadline)
    if known is not None:
        return known, known
    is_retry = queue.topic.startswith(RETRY_TOPIC_PREFIX)
    if start.where is ConsumeFrom.FIRST_OFFSET or (start.where is ConsumeFrom.LAST_OFFSET and is_retry):
        offset = yield from progress.min_offset(session, queue, deadline)
    elif start.where is ConsumeFrom.TIMESTAMP and not is_retry:
        offset = yield from progress.offset_by_time(session, queue, start.at_ms, deadline)
    else:
        offset = yield from progress.max_offset(session, queue, deadline)
    return offset, None
