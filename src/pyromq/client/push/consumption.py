"""The outlet of a push consumer: messages go to the listener, and what ends leaves its queue.

`concurrent` and `orderly` are the two kinds that pull. Both pull as a known member: the broker has the filter
from heartbeats, and each pull carries the group's progress. Those that pop are in `client/pop`.
"""

from abc import abstractmethod

from pyromq.client.consumer.group_member import STARTS, ConsumerOutlet, GroupMember
from pyromq.client.consumer.running_report import java_text
from pyromq.client.consumer.topic_subscription import retry_topic
from pyromq.client.namespaces import unwrap
from pyromq.client.plans.pull_plans import MemberPull, member_pull
from pyromq.client.push.calling import ListenerCaller
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.client.steps import Plan
from pyromq.model import MessageQueue, PullResult, ReceivedMessage
from pyromq.wire import properties as names

#: Tries of a message when the settings leave it open; in order there is no end.
TIMES_MAX = 16
TIMES_MAX_IN_ORDER = 2**31 - 1


class Consumption(ConsumerOutlet[ProcessQueue]):
    """Calls of the listener, for the messages of all queues."""

    def __init__(self, member: GroupMember[ProcessQueue], caller: ListenerCaller) -> None:
        self._member = member
        self._caller = caller
        self._started_ms = member.now_ms()

    @abstractmethod
    async def settle(self, grace_s: float) -> None:
        """Wait for what follows the last calls, but not longer than that; then give it up."""

    @property
    def times_max(self) -> int:
        """The number of times that a message is tried again."""
        wanted = self._member.session.settings.max_reconsume_times
        if wanted != -1:
            return wanted
        return TIMES_MAX_IN_ORDER if self._member.is_orderly else TIMES_MAX

    def restore_topics(self, messages: list[ReceivedMessage]) -> None:
        """Give messages that come again their first topic's name, as the application knows it."""
        session = self._member.session
        own, namespace = retry_topic(session.group), session.settings.namespace
        for message in messages:
            if message.topic == own:
                message.topic = message.properties.get(names.RETRY_TOPIC, own)
            if namespace:
                message.topic = unwrap(namespace, message.topic)

    # The outlet ---------------------------------------------------------------------------------------

    async def rest(self, patience_s: float) -> None:
        """Return when no call runs or waits, or after that time."""
        await self._caller.rest(patience_s)

    async def close(self) -> None:
        """Wait for calls that run, and for what follows them, but not for ever."""
        grace_s = self._member.session.settings.await_termination_millis_when_shutdown / 1_000
        await self._caller.close(grace_s)
        await self.settle(grace_s)

    def shown(self) -> dict[str, str]:
        """Return what operators are told of a push consumer, by RocketMQ's names."""
        return {
            "consumeFromWhere": STARTS[self._member.terms.start.where],
            "PROP_CONSUMEORDERLY": java_text(self._member.is_orderly),
            "PROP_THREADPOOL_CORE_SIZE": java_text(self._caller.size),
            "PROP_CONSUMER_START_TIMESTAMP": java_text(self._started_ms),
        }


class PulledConsumption(Consumption):
    """Calls of the listener for messages that are pulled, with progress by offsets."""

    @abstractmethod
    def consume(self, state: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Have the listener called with messages that wait in a queue."""

    def new_queue(self, queue: MessageQueue, now_ms: int) -> ProcessQueue:
        """Return the state of a queue that is taken."""
        return ProcessQueue(queue, now_ms)

    def pull(self, state: ProcessQueue) -> Plan[PullResult]:
        """Return the plan of a queue's next pull."""
        member, queue, progress = self._member, state.queue, state.progress
        finished = progress.finished if member.is_clustering else None
        wanted = MemberPull(queue, progress.next_offset, member.subscriptions[queue.topic], finished)
        return member_pull(member.session, wanted)

    def pulled(self, state: ProcessQueue, result: PullResult) -> None:
        """Take the answer of a pull."""
        state.progress.next_offset = result.next_offset
        if result.messages:
            state.put(result.messages)
            self.consume(state, result.messages)
        elif not state.count:
            # Filters took all there was: nothing before this offset is left to do.
            state.progress.finish_to(result.next_offset)
