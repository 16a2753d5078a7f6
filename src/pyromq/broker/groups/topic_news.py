"""Tells consumers that were there before their topic that the topic is there now.

Java's consumers ask the name servers only every 20 to 30 s for a topic that they do not know, and take its
queues at the rebalance after that, up to 20 s later. NOTIFY_CONSUMER_IDS_CHANGED makes them rebalance now.
With 4.9's client the first rebalance finds the route and the second takes the queues. 5.x's finds the route
only by its own poll, and takes the queues at the first notification after that. So it is sent several times.

The broker knows a member that knew a broker before, by its retry topic or by another topic. A member that
knows no broker sends no heartbeat, and finds the topic in its own time.
"""

import asyncio
from collections.abc import Iterable
from itertools import count

from pyromq.broker.groups.clients import Consumers
from pyromq.broker.groups.membership_notices import Membership

#: Seconds after the name servers know the topic: soon for 4.9's clients, and over the poll interval of 5.x's.
PAUSES_S = (0.0, 0.3, 1.5, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0)


class TopicNews:
    """Sends the members of groups that subscribe to a new topic to the name servers."""

    def __init__(self, consumers: Consumers, membership: Membership) -> None:
        self._consumers = consumers
        self._membership = membership
        self._numbers = count()
        #: The notifications that are still to be sent.
        self._timers: dict[int, asyncio.Handle] = {}

    def tell(self, topics: Iterable[str]) -> None:
        """Have members look for topics that the name servers know now."""
        new = frozenset(topics)
        names = [
            name for name, group in self._consumers.groups.items() if not new.isdisjoint(group.subscriptions)
        ]
        if not names:
            return
        loop = asyncio.get_running_loop()
        for pause_s in PAUSES_S:
            number = next(self._numbers)
            self._timers[number] = loop.call_later(pause_s, self._notify, number, names)

    def close(self) -> None:
        """Tell nobody any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _notify(self, number: int, names: list[str]) -> None:
        self._timers.pop(number, None)
        for name in names:
            group = self._consumers.get(name)
            if group is not None:
                self._membership.notify(group)
