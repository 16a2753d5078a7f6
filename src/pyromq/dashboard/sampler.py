"""Renews the picture of a cluster in rounds, with a snapshot each.

A round asks for the brokers and their figures, and for the offsets of all groups, one question a master.
The queues of a topic and the members of a group are one question each, so a round asks for some of them:
first those that somebody looks at, then those that move, then those that nobody asked about for the longest
time. The tables of topics and groups are asked for every few rounds.
"""

import asyncio
import logging
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from typing import Final, TypeVar

from pyromq.client.aio.asking import Asker
from pyromq.client.observation.observation import Observation
from pyromq.clock import Clock, SystemClock
from pyromq.dashboard.picture import GroupPicture, NameKind, Picture, TopicPicture
from pyromq.errors import NoRoute, PyroError
from pyromq.net.process_health import HealthCheck

log = logging.getLogger(__name__)

Looked = TypeVar("Looked", TopicPicture, GroupPicture)

#: Seconds between rounds while somebody looks, and while nobody does.
ROUND_S: Final = 2.0
IDLE_ROUND_S: Final = 10.0
#: Seconds without a request after which nobody looks.
IDLE_AFTER_S: Final = 60.0
#: Seconds that a topic or a group counts as looked at.
WANTED_S: Final = 15.0
#: Seconds that a change waits for its first look.
AGAIN_S_MAX: Final = 5.0
#: Rounds between looks at the tables of topics and groups, and at who is there besides.
TABLE_ROUNDS: Final = 5
#: Seconds after which a round that does not end is an illness of the dashboard, not of a slow cluster.
ROUND_S_MAX: Final = 180.0
#: Topics and groups of a round.
TOPICS_A_ROUND: Final = 120
GROUPS_A_ROUND: Final = 40
#: The largest share of a round's topics that topics with traffic may take.
_MOVING_SHARE: Final = 0.75


class Sampler:
    """Keeps a picture up to date until it is closed."""

    def __init__(self, asker: Asker, *, clock: Clock | None = None, round_s: float = ROUND_S) -> None:
        self.picture = Picture()
        self._asker = asker
        self._clock = clock or SystemClock()
        self._round_s = round_s
        self._wanted_topics: dict[str, float] = {}
        self._wanted_groups: dict[str, float] = {}
        self._last_seen = self._clock.monotonic()
        self._last_round = self._clock.monotonic()
        self._are_tables_due = True
        self._is_looking = False
        #: Brokers without failover, with the processes that said so.
        self._fixed_roles: dict[str, list[tuple[str, str | None]]] = {}
        self._hurry = asyncio.Event()
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin the rounds."""
        self._task = asyncio.create_task(self._run(), name="pyromq-dashboard-sampler")

    async def close(self) -> None:
        """End the rounds."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def checks(self) -> list[HealthCheck]:
        """Find out whether the rounds go on. One that finds the cluster ill is a good round: it is shown."""
        if self._task is None or self._task.done():
            return [HealthCheck("rounds", "it does not look at the cluster any more", needs_restart=True)]
        why = None
        if not self.picture.round_count:
            why = "it has not looked at the cluster yet"
        elif (age_s := self._clock.monotonic() - self._last_round) > ROUND_S_MAX:
            why = f"its last look at the cluster ended {age_s:.0f} s ago"
        return [HealthCheck("rounds", why)]

    def want(self, *, topics: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        """Look at these first for a while: somebody does."""
        now = self._clock.monotonic()
        self._last_seen = now
        self._wanted_topics.update(dict.fromkeys(topics, now + WANTED_S))
        self._wanted_groups.update(dict.fromkeys(groups, now + WANTED_S))

    async def look_again(self) -> None:
        """Look at everything soon, and return when that is done: something was changed."""
        # A round in flight may have asked before the change.
        count = self.picture.round_count + (2 if self._is_looking else 1)
        self._are_tables_due = True
        self._hurry.set()
        await self.wait_for_round(count, timeout_s=AGAIN_S_MAX)

    async def wait_for_round(self, count: int, timeout_s: float) -> bool:
        """Wait until this number of rounds is over; return False when that takes too long."""
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self.picture.round_count >= count)
        except TimeoutError:
            return False
        return True

    async def _run(self) -> None:
        while True:
            self._is_looking = True
            try:
                await self._round()
            except PyroError as error:
                self.picture.troubles["cluster"] = str(error)
            except Exception:
                # One round that fails must not be the last.
                log.exception("a round of looks at the cluster failed")
                self.picture.troubles["cluster"] = "the dashboard failed to read an answer; its log says more"
            self._is_looking = False
            self.picture.round_count += 1
            self._last_round = self._clock.monotonic()
            async with self._changed:
                self._changed.notify_all()
            await self._pause()

    async def _pause(self) -> None:
        is_idle = self._clock.monotonic() - self._last_seen > IDLE_AFTER_S
        try:
            async with asyncio.timeout(IDLE_ROUND_S if is_idle else self._round_s):
                await self._hurry.wait()
        except TimeoutError:
            return
        if not self._are_tables_due:
            self._hurry.clear()

    async def _round(self) -> None:
        picture = self.picture
        # RocketMQ 4.9 refuses its figures in its first seconds, and answers all else.
        observation = Observation(self._asker, clock=self._clock, asks_refusing=True)
        seen = observation.snapshot
        await self._look_at_brokers(observation)
        if self._are_tables_due or picture.round_count % TABLE_ROUNDS == 0:
            self._are_tables_due = False
            self._hurry.clear()
            await asyncio.gather(
                observation.ask_topics(), observation.ask_groups(), observation.ask_producers()
            )
            await self._look_at_replicas(observation)
            picture.take_tables(seen)
        await observation.ask_offsets()
        picture.take_offsets(seen, self._clock.now_ms())
        topics, groups = self._topics_of_round(), self._groups_of_round()
        await observation.ask_queues({topic.name: topic.configs.keys() for topic in topics})
        picture.take_queues(seen, topics, self._clock.now_ms())
        everywhere = {broker.broker_name for broker in picture.masters}
        await observation.ask_members({group.name: everywhere for group in groups})
        await observation.ask_progress({group.name: everywhere for group in groups if group.offsets})
        picture.take_progress(seen, groups)
        now_ms = self._clock.now_ms()
        picture.take_members(seen, groups, now_ms)
        picture.take_failures(seen)
        picture.measure_lags(now_ms)
        picture.incoming.append((now_ms, sum(topic.series.rate or 0.0 for topic in picture.topics.values())))
        picture.outgoing.append((now_ms, sum(group.series.rate or 0.0 for group in picture.groups.values())))
        picture.taken_at_ms = now_ms

    async def _look_at_brokers(self, observation: Observation) -> None:
        picture = self.picture
        try:
            # No route: the name servers know no broker.
            with suppress(NoRoute):
                await observation.find_brokers()
            picture.troubles.pop("cluster", None)
        except PyroError as error:
            # Brokers work without a name server, and are asked where they were.
            picture.troubles["cluster"] = str(error)
            observation.use_brokers(picture.brokers)
        await observation.ask_brokers()
        picture.take_brokers(observation.snapshot.brokers, self._clock.now_ms())

    async def _look_at_replicas(self, observation: Observation) -> None:
        """Ask for replicas, except processes that run without failover: they would log the question."""
        processes: dict[str, list[tuple[str, str | None]]] = {}
        for broker in observation.snapshot.brokers:
            started = broker.figures.get("bootTimestamp")
            processes.setdefault(broker.broker_name, []).append((broker.address, started))
        await observation.ask_replicas(
            name for name, own in processes.items() if self._fixed_roles.get(name) != own
        )
        self._fixed_roles |= {name: processes[name] for name in observation.snapshot.fixed_roles}

    # Topics and groups one by one

    def _topics_of_round(self) -> list[TopicPicture]:
        now = self._clock.monotonic()
        self._wanted_topics = {name: until for name, until in self._wanted_topics.items() if until > now}
        return chosen(
            self.picture.topics.values(), self._wanted_topics, TOPICS_A_ROUND, lambda topic: topic.is_moving
        )

    def _groups_of_round(self) -> list[GroupPicture]:
        now = self._clock.monotonic()
        self._wanted_groups = {name: until for name, until in self._wanted_groups.items() if until > now}
        normal = [group for group in self.picture.groups.values() if group.kind is NameKind.NORMAL]
        return chosen(normal, self._wanted_groups, GROUPS_A_ROUND, lambda group: False)


def chosen(
    items: Iterable[Looked], wanted: Container[str], most: int, is_moving: Callable[[Looked], bool]
) -> list[Looked]:
    """Return what to look at in a round: what somebody wants, what moves, and what waited longest."""
    by_age = sorted(items, key=lambda item: item.looked_at_ms)
    first = [item for item in by_age if item.name in wanted][:most]
    taken = {item.name for item in first}
    moving = [item for item in by_age if item.name not in taken and is_moving(item)]
    first += moving[: max(0, int(most * _MOVING_SHARE) - len(first))]
    taken = {item.name for item in first}
    rest = [item for item in by_age if item.name not in taken]
    return first + rest[: most - len(first)]
