"""Polls of a whole topic with a group's progress: all queues in turn, whoever else reads them.

The consumer is no member of its group: it sends no heartbeats and shares no queues.
"""

import logging
from dataclasses import dataclass, field

from pyromq.client.client_session import Session
from pyromq.client.consumer.queue_progress import QueueProgress
from pyromq.client.plans import progress_plans
from pyromq.client.plans.progress_plans import GroupStart
from pyromq.client.plans.pull_plans import PullQuery, pull_all, pull_deadline
from pyromq.client.steps import Deadline, Pause, Plan
from pyromq.errors import NetworkError, NoRoute, PyroError
from pyromq.filter.tags import ALL
from pyromq.model import MessageQueue, PullResult, ReceivedMessage

_log = logging.getLogger("pyromq.client")
#: Seconds between two looks at queues that are all empty. A held pull for each queue would need a socket each
#: on the blocking face.
PAUSE_S_FIRST = 0.01
PAUSE_S_MAX = 0.5


@dataclass(frozen=True, slots=True)
class TopicWanted:
    """The topic to poll, the tags, and the number of messages of one pull."""

    topic: str
    tags: str = ALL
    count: int = 32


@dataclass(slots=True)
class TopicPolls:
    """The queues that one consumer reads by `poll_topic` or `messages`."""

    start: GroupStart
    is_committed: bool = True
    queues: dict[MessageQueue, QueueProgress] = field(default_factory=dict)
    commit_at: float = float("-inf")
    _last_queue: dict[str, MessageQueue] = field(default_factory=dict)

    def in_turn(self, topic: str, queues: tuple[MessageQueue, ...]) -> tuple[MessageQueue, ...]:
        """Return the queues, beginning after the one that gave messages last, so that none starves."""
        last = self._last_queue.get(topic)
        if last not in queues:
            return queues
        after = queues.index(last) + 1
        return queues[after:] + queues[:after]

    def pulled(self, queue: MessageQueue, result: PullResult) -> None:
        """Note the end of a pull."""
        self.queues[queue].pulled(result.next_offset, has_messages=bool(result.messages))
        if result.messages:
            self._last_queue[queue.topic] = queue

    def hand_out(self, message: ReceivedMessage) -> None:
        """Note that the application has a message now."""
        self.queues[message.queue].handed_out = message.queue_offset + 1

    def hand_out_rest(self, queue: MessageQueue) -> None:
        """Note that the application has every message that was pulled of a queue."""
        self.queues[queue].handed_out = self.queues[queue].next_offset

    def finish(self) -> None:
        """Note that the application is done with everything that was handed out."""
        for queue in self.queues.values():
            queue.finish()

    def note_committed(self, queue: MessageQueue, offset: int) -> None:
        """Note an offset that the application committed."""
        if queue in self.queues:
            self.queues[queue].note_committed(offset)


def poll(
    session: Session, polls: TopicPolls, wanted: TopicWanted, deadline: Deadline
) -> Plan[list[ReceivedMessage]]:
    """Return the next messages of one queue, or none when the deadline passed without any.

    All that was handed out before counts as finished. Queues whose broker fails are left for later; when all
    of them fail, the last failure is raised. A topic that is not there may have been made just now, and name
    servers hear of it a little later: NoRoute is raised when the deadline passed.
    """
    for queue in polls.queues.values():
        queue.finish()
        queue.take_back()
    yield from commit_when_due(session, polls)
    pause_s = PAUSE_S_FIRST
    while True:
        try:
            messages = yield from _look_once(session, polls, wanted)
        except NoRoute:
            if deadline.has_passed:
                raise
        else:
            if messages or deadline.has_passed:
                return messages
        yield Pause(min(pause_s, deadline.left_s))
        pause_s = min(2 * pause_s, PAUSE_S_MAX)


def commit_when_due(session: Session, polls: TopicPolls) -> Plan[None]:
    """Commit what is finished, if the last time was long enough ago."""
    if not polls.is_committed or session.clock.monotonic() < polls.commit_at:
        return
    polls.commit_at = session.clock.monotonic() + session.settings.persist_consumer_offset_interval / 1_000
    yield from progress_plans.commit_finished(session, polls.queues)


def last_commit(session: Session, polls: TopicPolls) -> Plan[None]:
    """Commit what is finished when the consumer is closed."""
    if polls.is_committed:
        yield from progress_plans.commit_finished(session, polls.queues)


def _look_once(session: Session, polls: TopicPolls, wanted: TopicWanted) -> Plan[list[ReceivedMessage]]:
    api_deadline = session.deadline(None, session.settings.mq_client_api_timeout)
    queues = yield from progress_plans.subscribe_queues(session, wanted.topic, api_deadline)
    failures: list[PyroError] = []
    for queue in polls.in_turn(wanted.topic, tuple(queues)):
        try:
            result = yield from _pull_next(session, polls, queue, wanted)
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
    session: Session, polls: TopicPolls, queue: MessageQueue, wanted: TopicWanted
) -> Plan[PullResult]:
    if queue not in polls.queues:
        offset, committed = yield from progress_plans.starting_offset(session, polls.start, queue)
        polls.queues[queue] = QueueProgress()
        polls.queues[queue].place(offset, finished=offset, committed=committed)
    ask_for = PullQuery(queue, polls.queues[queue].next_offset, wanted.count, wanted.tags)
    result = yield from pull_all(session, ask_for, pull_deadline(session, 0, None))
    polls.pulled(queue, result)
    return result
