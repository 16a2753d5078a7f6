"""The queues that a member pops: the broker says which, and mostly all members pop all of them.

    route → heartbeat → QUERY_ASSIGNMENT → queues to pop, with id −1 for all of a broker's

There is nothing to lock and nothing to commit, and a queue that goes is finished: nobody owns it.
"""

from collections.abc import Iterable
from typing import Final

from pyromq.client.consumer.group_member import ConsumerOutlet, GroupMember
from pyromq.client.consumer.queue_pulls import QueuePulls
from pyromq.client.consumer.rebalancer import Rebalancer
from pyromq.client.plans.pop_plans import ALL_QUEUES, assignments
from pyromq.client.plans.route_plans import subscribe_route
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.model import MessageQueue, PullResult
from pyromq.wire.bodies.pop_bodies import QueueAssignment

_POP: Final = "POP"


class PopLoops(QueuePulls[ProcessQueue]):
    """Pops a member's queues. A pop that is held goes on: the broker may be answering it right now."""

    def stop(self, state: ProcessQueue) -> None:
        """Begin no other pop of a queue; what the last one brings is consumed."""
        state.is_dropped = True

    async def close(self) -> None:
        """Begin no other pops; `end` ends those that are held."""
        for state in self._tasks:
            state.is_dropped = True

    async def end(self) -> None:
        """Wait for no pop any more."""
        await super().close()

    async def _pull(self, state: ProcessQueue) -> PullResult | None:
        result = await super()._pull(state)
        if result is not None and state.is_dropped:
            # Whoever drives this looks at it no more.
            self._outlet.pulled(state, result)
        return result


class PopRebalancer(Rebalancer[ProcessQueue]):
    """Keeps a member known to the brokers, and pops the queues that they assign."""

    pulls: PopLoops

    def __init__(self, member: GroupMember[ProcessQueue], outlet: ConsumerOutlet[ProcessQueue]) -> None:
        super().__init__(member, outlet)
        self.pulls = PopLoops(member, outlet, self.go_on)

    async def close(self) -> None:
        """End pops that are held, and leave the group."""
        await self.pulls.end()
        await super().close()

    def begin_anew(self, state: ProcessQueue, _offset: int) -> ProcessQueue | None:
        """Let a reset be the broker's: the next pop is there."""
        return state

    async def go_on(self, state: ProcessQueue, offset: int) -> None:
        """Let a reset be the broker's: the next pop is there."""

    async def _share(self, topic: str) -> set[MessageQueue]:
        member, session = self._member, self._member.session
        deadline = session.deadline(None, session.settings.mq_client_api_timeout)
        route = await member.driver.run(subscribe_route(session, topic, deadline))
        if not self._greeted.issuperset(session.routes.all_addresses()):
            await self.tell_brokers()
        told = await member.driver.run(assignments(session, topic))
        if told is None:
            # A broker that was restarted has forgotten us.
            await self.tell_brokers()
            told = await member.driver.run(assignments(session, topic))
        if told is None:
            return {queue for queue in member.queues if queue.topic == topic}
        return popped_queues(topic, told, route.read_queues)


def popped_queues(
    topic: str, told: Iterable[QueueAssignment], read_queues: Iterable[MessageQueue]
) -> set[MessageQueue]:
    """Return the queues to pop. Where the broker would have them pulled, all members pop all of them.

    That is what a broker says of a group until somebody sets its mode (`mqadmin setConsumeMode`).
    """
    told = list(told)
    if all(assignment.mode == _POP for assignment in told):
        return {assignment.queue for assignment in told}
    return {MessageQueue(topic, queue.broker_name, ALL_QUEUES) for queue in read_queues}
