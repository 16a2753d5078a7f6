"""The locks of queues at their brokers: a queue read in order is read by the member that holds it."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable

from pyromq.client.consumer.group_member import GroupMember, Q
from pyromq.client.plans import lock_plans
from pyromq.errors import PyroError
from pyromq.model import MessageQueue

_log = logging.getLogger("pyromq.client")


class HeldLocks:
    """Locks, renews and unlocks. Queues of several brokers are asked for at once."""

    def __init__(self, member: GroupMember[Q]) -> None:
        self._member = member
        #: Queues whose locks may be this member's: also one whose answer nobody waited for.
        self._asked: set[MessageQueue] = set()

    async def lock(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Lock queues, and return those that are now this member's."""
        found = await asyncio.gather(*(self._lock(part) for part in _by_broker(queues)))
        return set().union(*(part for part in found if part is not None))

    async def renew(self) -> None:
        """Lock all queues again; one that another member got meanwhile is lost."""
        for queues in _by_broker(self._member.queues):
            locked = await self._lock(queues)
            if locked is None:
                continue
            for queue in queues:
                state = self._member.queues.get(queue)
                if state is not None and queue in locked:
                    state.lock(self._member.now_ms())
                elif state is not None:
                    state.is_locked = False

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Give locks back."""
        await asyncio.gather(*(self._unlock(part) for part in _by_broker(queues)))

    async def unlock_all(self) -> None:
        """Give all locks back that may be this member's."""
        await self.unlock(self._asked.union(self._member.queues))

    async def _lock(self, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        """Lock queues of one broker; return None when it did not answer."""
        member = self._member
        self._asked.update(queues)
        try:
            locked = await member.driver.run(lock_plans.lock(member.session, queues))
        except PyroError as error:
            _log.warning("queues of %s could not be locked: %s", queues[0].broker_name, error)
            return None
        self._asked.difference_update(set(queues) - locked)
        return locked

    async def _unlock(self, queues: list[MessageQueue]) -> None:
        member = self._member
        try:
            await member.driver.run(lock_plans.unlock(member.session, queues, oneway=False))
        except PyroError as error:
            _log.warning("queues of %s were not unlocked: %s", queues[0].broker_name, error)
        else:
            self._asked.difference_update(queues)


def _by_broker(queues: Iterable[MessageQueue]) -> list[list[MessageQueue]]:
    parts: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in sorted(queues):
        parts[queue.broker_name].append(queue)
    return list(parts.values())
