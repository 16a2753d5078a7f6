"""The methods of the pull consumer."""

from collections.abc import Coroutine, Iterable
from typing import Any, Final, TypeAlias, TypeVar

from pyromq.client.client_session import Session
from pyromq.client.consumer.allocation import Allocate, average
from pyromq.client.consumer.poll_outlet import PollOutlet
from pyromq.client.consumer.pull_terms import PullTerms, pull_terms
from pyromq.client.consumer.watching import QueuesChanged
from pyromq.client.operations.declaration import (
    ClientOperations,
    EngineCall,
    EngineOperation,
    IteratingOperation,
    OnEngine,
    Operation,
)
from pyromq.client.plans import polling, progress_plans
from pyromq.client.plans.polling import TopicPolls, TopicWanted
from pyromq.client.plans.pull_plans import PullQuery, pull, pull_deadline
from pyromq.client.steps import Deadline, HandOut, Items, Plan
from pyromq.config.settings import ClientSettings
from pyromq.errors import ConfigError
from pyromq.model import ConsumeFrom, MessageQueue, PullResult, ReceivedMessage

T = TypeVar("T")
Call: TypeAlias = OnEngine[PollOutlet, T]
Work: TypeAlias = OnEngine[PollOutlet, Coroutine[Any, Any, T]]

#: Milliseconds of one look for messages by an iteration that has no end; only a bound on closing in between.
ROUND_MS: Final = 1_000
#: Milliseconds that a poll waits unless it is told otherwise, as RocketMQ's.
POLL_MS: Final = 5_000


class PullOperations(ClientOperations):
    """Subscribing and polling, reading topics and queues, and the group's progress."""

    def __init__(
        self,
        group: str,
        name_server: str | None = None,
        settings: ClientSettings | None = None,
        *,
        start_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET,
        start_at_ms: int = 0,
        allocate: Allocate = average,
        auto_commit: bool = True,
        model: str = "clustering",
    ) -> None:
        self.group = group
        self._is_closed = False
        terms = pull_terms(
            group,
            name_server,
            settings,
            start_from=start_from,
            start_at_ms=start_at_ms,
            allocate=allocate,
            auto_commit=auto_commit,
            model=model,
        )
        self._polls = TopicPolls(terms.member.start, auto_commit)
        self._set_engine(terms)

    def _set_engine(self, terms: PullTerms) -> None:
        """Make the engine and the runner; each face has its own kind."""
        raise NotImplementedError

    def _on_engine(self, work: Work[None]) -> Plan[None]:
        """Do something with the engine, if it is needed so far."""
        raise NotImplementedError

    # Subscribed and assigned queues -----------------------------------------------------------------------

    @EngineCall
    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> Call[None]:
        """Read this member's share of a topic's queues: messages with one of the tags "a || b", or by `sql`.

        Several topics may be subscribed, before the start or after it. The group's other members must
        subscribe to the same.
        """
        return lambda outlet: outlet.subscribe(topic, tags, sql)

    @EngineCall
    def unsubscribe(self, topic: str) -> Call[None]:
        """Read a topic no more; what was pulled of it and not handed out is left to others."""
        return lambda outlet: outlet.unsubscribe(topic)

    @EngineCall
    def assign(
        self, queues: Iterable[MessageQueue], *, tags: str = "*", sql: str | None = None
    ) -> Call[None]:
        """Read these queues, in place of those assigned before; nobody shares them with us or knows of it."""
        wanted = list(queues)
        return lambda outlet: outlet.assign(wanted, tags, sql)

    @EngineCall
    def assignment(self) -> Call[list[MessageQueue]]:
        """Return the queues that are read: this member's share, or what was assigned."""
        return lambda outlet: outlet.assignment

    @EngineOperation
    def poll(self, timeout_ms: int = POLL_MS) -> Work[list[ReceivedMessage]]:
        """Return the next messages, of one queue; none when none came in time.

        What earlier polls returned counts as finished. Brokers that are away are tried again, and are no
        error; a filter or a group that every broker refuses is.
        """
        return lambda outlet: outlet.poll(timeout_ms)

    @EngineOperation
    def seek(self, queue: MessageQueue, offset: int) -> Work[None]:
        """Go on at an offset of a queue that is read; the next commit says so to the broker."""
        return lambda outlet: outlet.seek(queue, offset)

    @EngineOperation
    def seek_to_begin(self, queue: MessageQueue) -> Work[None]:
        """Go on at the first message that is still there."""
        return lambda outlet: outlet.seek(queue, None)

    @EngineOperation
    def seek_to_end(self, queue: MessageQueue) -> Work[None]:
        """Go on with the messages that come from now on."""
        return lambda outlet: outlet.seek(queue, None, to_end=True)

    @EngineCall
    def pause(self, queues: Iterable[MessageQueue]) -> Call[None]:
        """Hand out nothing of these queues, and pull no more of them; they stay this consumer's."""
        held = list(queues)
        return lambda outlet: outlet.pause(held, is_paused=True)

    @EngineCall
    def resume(self, queues: Iterable[MessageQueue]) -> Call[None]:
        """Go on with queues that were paused."""
        held = list(queues)
        return lambda outlet: outlet.pause(held, is_paused=False)

    @EngineCall
    def on_queues_changed(self, topic: str, listener: QueuesChanged) -> Call[None]:
        """Have a listener called with a topic and its queues when they are others than before.

        The name server is asked every 30 s. A listener of `pyromq.aio` may be a coroutine function; one of
        `pyromq` is called on a thread of its own.
        """
        return lambda outlet: outlet.listen(topic, listener)

    @EngineCall
    def _conflict(self) -> Call[str | None]:
        return lambda outlet: outlet.session.subscription_conflict

    # Topics and queues ------------------------------------------------------------------------------------

    @Operation
    def fetch_message_queues(self, topic: str) -> Plan[list[MessageQueue]]:
        """Return the queues of a topic that can be read, as a name server says now; none without a route."""
        return progress_plans.fetch_queues(self._session, topic, self._deadline())

    @Operation
    def queues(self, topic: str) -> Plan[list[MessageQueue]]:
        """Return the queues of a topic that can be read, of all brokers."""
        return progress_plans.subscribe_queues(self._session, topic, self._deadline())

    @Operation
    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        count: int = 32,
        tags: str = "*",
        sql: str | None = None,
        wait_ms: int = 0,
        timeout_ms: int | None = None,
    ) -> Plan[PullResult]:
        """Return up to `count` messages of a queue from `offset` on, with one of the tags "a || b".

        Or those for which an expression of `sql` is true. With `wait_ms` the broker holds the question that
        long if there are none.
        """
        session = self._session
        wanted = PullQuery(queue, offset, count, tags, wait_ms, sql)
        return pull(session, wanted, pull_deadline(session, wait_ms, timeout_ms))

    @Operation
    def poll_topic(
        self, topic: str, *, tags: str = "*", count: int = 32, wait_ms: int = 1_000
    ) -> Plan[list[ReceivedMessage]]:
        """Return the next messages of one of the topic's queues; none when none came within `wait_ms`.

        What earlier polls returned counts as finished.
        """
        messages = yield from self._poll(self._session, TopicWanted(topic, tags, count), wait_ms)
        if messages:
            self._polls.hand_out_rest(messages[0].queue)
        return messages

    @IteratingOperation
    def messages(
        self, topic: str, *, tags: str = "*", count: int = 32, idle_ms: int | None = None
    ) -> Items[ReceivedMessage]:
        """Iterate over a topic's messages; each is finished when the next is asked for.

        They are pulled `count` at a time. It ends when none came for `idle_ms`; without that, it never ends.
        """
        wanted = TopicWanted(topic, tags, count)
        while True:
            batch = yield from self._poll(self._session, wanted, ROUND_MS if idle_ms is None else idle_ms)
            if not batch and idle_ms is not None:
                return
            for message in batch:
                self._polls.hand_out(message)
                yield HandOut(message)
                self._polls.finish()
                yield from polling.commit_when_due(self._session, self._polls)
            if batch:
                self._polls.hand_out_rest(batch[0].queue)

    # Progress ---------------------------------------------------------------------------------------------

    @Operation
    def committed(self, queue: MessageQueue) -> Plan[int | None]:
        """Return the offset that the group reads next, or None when it has not read the queue yet."""
        return progress_plans.committed(self._session, queue, self._deadline())

    @Operation
    def commit(self, queue: MessageQueue | None = None, offset: int | None = None) -> Plan[None]:
        """Let brokers remember how far the group is: with all that was handed out by `poll` or iteration.

        A consumer that is broadcasting remembers it in its file.

        With a queue and an offset, that is what the group reads next of that queue: one past the last that is
        finished. Raises what went wrong with the first queue that could not be committed.
        """
        session = self._session
        if queue is None or offset is None:
            if (queue is None) != (offset is None):
                raise ConfigError("commit a queue with its offset, or everything without either")
            self._polls.finish()
            failure = yield from progress_plans.commit_finished(session, self._polls.queues)
            yield from self._on_engine(lambda outlet: outlet.commit())
            if failure is not None:
                raise failure
            return
        yield from progress_plans.commit(session, queue, offset, self._deadline())
        self._polls.note_committed(queue, offset)
        yield from self._on_engine(lambda outlet: outlet.note_committed(queue, offset))

    @Operation
    def min_offset(self, queue: MessageQueue) -> Plan[int]:
        """Return the offset of the first message that is still there."""
        return progress_plans.min_offset(self._session, queue, self._deadline())

    @Operation
    def max_offset(self, queue: MessageQueue) -> Plan[int]:
        """Return the offset that the next message will get."""
        return progress_plans.max_offset(self._session, queue, self._deadline())

    @Operation
    def offset_by_time(self, queue: MessageQueue, at_ms: int) -> Plan[int]:
        """Return the offset of the first message stored at or after a time, in milliseconds since 1970."""
        return progress_plans.offset_by_time(self._session, queue, at_ms, self._deadline())

    @Operation
    def offset_for_timestamp(self, queue: MessageQueue, at_ms: int) -> Plan[int]:
        """Return the same as `offset_by_time`, under the name that RocketMQ has for it."""
        return progress_plans.offset_by_time(self._session, queue, at_ms, self._deadline())

    def _poll(self, session: Session, wanted: TopicWanted, wait_ms: int) -> Plan[list[ReceivedMessage]]:
        return polling.poll(session, self._polls, wanted, session.deadline(wait_ms, wait_ms))

    def _deadline(self) -> Deadline:
        session = self._session
        return session.deadline(None, session.settings.mq_client_api_timeout)
