"""The driver's questions to a cluster: its queues, their first and last offsets, the progress of groups.

It is asyncio on a thread: a topic may have many queues on many brokers, and they are asked at the same time.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar

from pyromq.client.aio.runner import Runner
from pyromq.client.client_session import Session, new_session
from pyromq.client.consumer.incoming import received_messages
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.plans import membership_plans, presence_plans, progress_plans, route_plans
from pyromq.client.plans.admin import lookups as admin
from pyromq.client.plans.dead_letter_plans import new_tools_session
from pyromq.client.plans.pull_plans import PullQuery, pull, pull_deadline, pull_records
from pyromq.client.steps import Plan
from pyromq.client.sync.hosted import HostedLoop
from pyromq.errors import NoRoute, PyroError
from pyromq.model import MessageQueue, PullResult, ReceivedMessage
from pyromq.system_names import is_users_topic
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart
from pyromq.wire.bodies.offset_bodies import TopicOffset
from pyspark_rocketmq.failures import ReadFailed, TopicMissing, place
from pyspark_rocketmq.source.source_options import ClusterConnection, TopicChoice

T = TypeVar("T")

#: Milliseconds that one question may take.
TIMEOUT_MS: Final = 6_000
#: Milliseconds for which a broker holds a question for news.
HOLD_MS: Final = 5_000
#: Queues for which a broker holds one; of more, the others' news is found when the wait is over.
HELD_MAX: Final = 256


def open_session(connection: ClusterConnection, group: str | None) -> Session:
    """Return a session in the name of the group, or of the one that every broker has for tools."""
    settings = connection.settings()
    addresses = name_server_addresses(connection.name_server, settings)
    if group is None:
        return new_tools_session(addresses, settings)
    return new_session(group, addresses, settings)


class SourceCluster:
    """A cluster, as the driver sees it."""

    def __init__(self, connection: ClusterConnection, group: str | None) -> None:
        self._loop = HostedLoop("spark driver")
        self._runner = Runner(
            "spark driver", partial(open_session, connection, group), presence_plans.keep_routes_fresh
        )
        self._held: dict[MessageQueue, asyncio.Task[PullResult]] = {}
        self._loop.start()
        self._loop.run(self._runner.start())

    def close(self) -> None:
        """End the connections."""
        if self._loop.is_running:
            self._loop.run(self._end())
        self._loop.close()

    def queues(self, choice: TopicChoice) -> list[MessageQueue]:
        """Return the queues to read, sorted; raise ReadFailed for a topic or a queue that does not exist."""
        topics = choice.topics
        if choice.pattern is not None:
            topics = self._matching(choice.pattern)
        found: list[MessageQueue] = []
        for topic, queues in zip(topics, self._all(map(self._fetch_queues, topics)), strict=True):
            if isinstance(queues, PyroError):
                raise queues
            found += queues or self._found_after_all(choice.option, topic)
        return sorted(self._chosen(choice, found))

    def _found_after_all(self, option: str, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that had none; raise NoRoute or TopicMissing if it has none still."""
        servers = self._session.name_servers
        if not self._run(
            route_plans.cluster(self._session, self._session.deadline(None, TIMEOUT_MS))
        ).broker_addr_table:
            raise NoRoute(f"name server {servers} knows no broker at all; does it restart?")
        # A broker that registered between the two questions brought the topic with it.
        (queues,) = self._all([self._fetch_queues(topic)])
        if isinstance(queues, PyroError):
            raise queues
        if not queues:
            raise TopicMissing(
                f"{option}: topic {topic!r} does not exist, or may not be read, at name server {servers}; is "
                f"the name right? pyromq.Admin(...).create_topic({topic!r}) or mqadmin updateTopic creates it"
            )
        return queues

    def edges(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, TopicOffset | PyroError]:
        """Return where each queue begins and ends, or why that is not known."""
        queues = list(queues)
        places = sorted({(queue.topic, queue.broker_name) for queue in queues})
        answers = self._all(
            progress_plans.edges(self._session, topic, broker, self._session.deadline(None, TIMEOUT_MS))
            for topic, broker in places
        )
        found: dict[MessageQueue, TopicOffset | PyroError] = {}
        for (topic, broker), answer in zip(places, answers, strict=True):
            own = (queue for queue in queues if (queue.topic, queue.broker_name) == (topic, broker))
            if isinstance(answer, PyroError):
                found |= dict.fromkeys(own, answer)
            else:
                found |= {queue: answer[queue] for queue in own if queue in answer}
        # A broker tells of the queues that may be written to, and those that may not any more are read too.
        found |= self._edges_one_by_one([queue for queue in queues if queue not in found])
        return {queue: found[queue] for queue in queues}

    def _edges_one_by_one(
        self, queues: Sequence[MessageQueue]
    ) -> dict[MessageQueue, TopicOffset | PyroError]:
        return dict(zip(queues, self._all(_edges_of(self._session, queue) for queue in queues), strict=True))

    def committed(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Return how far the group got in each queue, None where it never was."""
        deadline = self._session.deadline(None, TIMEOUT_MS)
        answers = self._all(progress_plans.committed(self._session, queue, deadline) for queue in queues)
        return _must_succeed(queues, answers)

    def by_time(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Return the offset of the first message of each queue that was stored at or after a time."""
        plans = [_first_stored_since(self._session, queue, at_ms) for queue, at_ms in times.items()]
        return _must_succeed(list(times), self._all(plans))

    def samples(
        self, offsets: Mapping[MessageQueue, int], count: int
    ) -> dict[MessageQueue, list[ReceivedMessage]]:
        """Return the next messages of each queue from an offset on; none where they cannot be read now."""
        plans = [_sample(self._session, queue, offset, count) for queue, offset in offsets.items()]
        answers = self._all(plans)
        return {
            queue: [] if isinstance(answer, PyroError) else answer
            for queue, answer in zip(offsets, answers, strict=True)
        }

    def publish(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, PyroError]:
        """Let brokers remember how far the group is, and return what failed."""
        deadline = self._session.deadline(None, TIMEOUT_MS)
        answers = self._all(
            progress_plans.commit(self._session, queue, offset, deadline) for queue, offset in offsets.items()
        )
        paired = zip(offsets, answers, strict=True)
        return {queue: answer for queue, answer in paired if isinstance(answer, PyroError)}

    def introduce(self) -> None:
        """Make the group known to the brokers, if it is not: tools show only the lag of those that are.

        A group exists from its first member on, so we are one for a moment.
        """
        session = self._session
        retry_topic = f"{RETRY_TOPIC_PREFIX}{session.group}"
        if self._run(progress_plans.fetch_queues(session, retry_topic, session.deadline(None, TIMEOUT_MS))):
            return
        part = ConsumerPart(group_name=session.group)
        addresses = session.routes.master_addresses()
        self._all(membership_plans.heartbeat(session, part, address) for address in addresses)
        self._all(membership_plans.leave(session, address) for address in addresses)

    def wait_for_news(self, ends: Mapping[MessageQueue, int], seconds: float) -> None:
        """Return when a queue has a message at its end, or when the time is up."""
        self._loop.run(self._wait_for_news(ends, seconds))

    async def _wait_for_news(self, ends: Mapping[MessageQueue, int], seconds: float) -> None:
        session = self._session
        for queue in list(ends)[:HELD_MAX]:
            if queue not in self._held:
                wanted = PullQuery(queue, ends[queue], count=1, wait_ms=HOLD_MS)
                plan = pull(session, wanted, pull_deadline(session, HOLD_MS, None))
                self._held[queue] = asyncio.create_task(self._runner.run(plan))
        if self._held:
            done, _ = await asyncio.wait(
                self._held.values(), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            has_failed = any(task.exception() is not None for task in done)
            self._held = {queue: task for queue, task in self._held.items() if task not in done}
            if not has_failed:
                return
        # Brokers that cannot be asked answer at once.
        await asyncio.sleep(seconds)

    async def _end(self) -> None:
        for task in self._held.values():
            task.cancel()
        await self._runner.close()

    def _fetch_queues(self, topic: str) -> Plan[list[MessageQueue]]:
        return progress_plans.fetch_queues(self._session, topic, self._session.deadline(None, TIMEOUT_MS))

    def _matching(self, pattern: str) -> tuple[str, ...]:
        wanted = re.compile(pattern)
        known = self._run(admin.topics(self._session, self._session.deadline(None, TIMEOUT_MS)))
        brokers = self._run(route_plans.cluster(self._session, self._session.deadline(None, TIMEOUT_MS)))
        # Each broker and each cluster has a topic of its own name.
        own = {*brokers.broker_addr_table, *brokers.cluster_addr_table}
        matching = tuple(
            topic for topic in known if topic not in own and is_users_topic(topic) and wanted.fullmatch(topic)
        )
        if not matching:
            raise ReadFailed(
                f"subscribePattern: no topic matches {pattern!r} as a whole at name server "
                f"{self._runner.session.name_servers}; there are {', '.join(known[:20]) or 'none'}"
            )
        return matching

    def _chosen(self, choice: TopicChoice, queues: list[MessageQueue]) -> Iterable[MessageQueue]:
        chosen = choice.queues
        if chosen is None:
            return queues
        for topic, broker, queue_id in chosen.named:
            if not any(
                (queue.topic, queue.queue_id) == (topic, queue_id) and broker in (None, queue.broker_name)
                for queue in queues
            ):
                there = ", ".join(f"{one.broker_name}/{one.queue_id}" for one in queues if one.topic == topic)
                raise ReadFailed(
                    f"{choice.option}: topic {topic!r} has no queue {queue_id}"
                    f"{f' on {broker}' if broker else ''}; it has {there}"
                )
        return (queue for queue in queues if chosen.has(queue))

    @property
    def _session(self) -> Session:
        return self._runner.session

    def _run(self, plan: Plan[T]) -> T:
        return self._loop.run(self._runner.run(plan))

    def _all(self, plans: Iterable[Plan[T]]) -> list[T | PyroError]:
        """Carry out plans at the same time, and return what each gave, or how it failed."""

        async def run() -> list[T | PyroError]:
            return await asyncio.gather(*(attempt(plan) for plan in plans))

        async def attempt(plan: Plan[T]) -> T | PyroError:
            try:
                return await self._runner.run(plan)
            except PyroError as error:
                return error

        return self._loop.run(run())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _must_succeed(queues: Sequence[MessageQueue], answers: Sequence[T | PyroError]) -> dict[MessageQueue, T]:
    found: dict[MessageQueue, T] = {}
    for queue, answer in zip(queues, answers, strict=True):
        if isinstance(answer, PyroError):
            raise ReadFailed(f"{place(queue)}: {answer}") from answer
        found[queue] = answer
    return found


def _edges_of(session: Session, queue: MessageQueue) -> Plan[TopicOffset]:
    deadline = session.deadline(None, TIMEOUT_MS)
    least = yield from progress_plans.min_offset(session, queue, deadline)
    most = yield from progress_plans.max_offset(session, queue, deadline)
    return TopicOffset(min_offset=max(least, 0), max_offset=max(most, 0))


def _sample(session: Session, queue: MessageQueue, offset: int, count: int) -> Plan[list[ReceivedMessage]]:
    wanted = PullQuery(queue, offset, count)
    pulled = yield from pull_records(session, [wanted], pull_deadline(session, 0, None))
    return [
        one for one in received_messages(pulled[0].records, queue.broker_name) if one.queue_offset >= offset
    ]


def _first_stored_since(session: Session, queue: MessageQueue, at_ms: int) -> Plan[int]:
    """Return the offset of the first message stored at or after a time; the queue's end when there is none.

    Brokers before 5.x return any one of several messages of that millisecond, and the last message when all
    are older. So what is around the answer is looked at.
    """
    deadline = session.deadline(None, TIMEOUT_MS)
    least = yield from progress_plans.min_offset(session, queue, deadline)
    offset = yield from progress_plans.offset_by_time(session, queue, at_ms, deadline)
    begin = offset
    around: list[ReceivedMessage] = []
    while begin > least and (not around or around[0].stored_at_ms >= at_ms):
        begin = max(begin - _AROUND, least)
        around = yield from _sample(session, queue, begin, _AROUND)
    while around := (yield from _sample(session, queue, begin, _AROUND)):
        for message in around:
            if message.stored_at_ms >= at_ms:
                return message.queue_offset
        begin = around[-1].queue_offset + 1
    return (yield from progress_plans.max_offset(session, queue, session.deadline(None, TIMEOUT_MS)))


_AROUND: Final = 32
