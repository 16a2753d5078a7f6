"""Messages that wait are stored where they belong, many with one write: what the kernel can do of it.

    positions of messages that are due ─► DuePlan.plan_due ─► one write to the log ─► DuePlan.apply
                                            │ ends at the first message that is not plain
                                            ▼
                                          whoever delivers stores that one himself, and has its queue learnt

`stored_again.py` has the rules of what is stored. The queues that were learnt are forgotten when any topic
changes.
"""

from array import array
from typing import TYPE_CHECKING, Final, Protocol

from pyromq import system_names
from pyromq.broker.delivery.arrivals import Announcements
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.errors import StoreError
from pyromq.store.queue_tail import QueueTail
from pyromq.store.store import MessageStore
from pyromq.wire.record import HOST_BYTES_V4, TOPIC_BYTES_MAX_V1

if TYPE_CHECKING:
    from pyromq._kernel.storage.again import DuePlan

#: A queue with a higher number is Python's.
_QUEUE_ID_MAX: Final = 65_535


class Learner(Protocol):
    """A part of the kernel that stores messages in queues that it knows."""

    def learn(self, topic: bytes, queue_id: int, queue: QueueTail) -> None:
        """Store messages in this queue from now on."""
        ...


class QueueTeacher:
    """Has parts of the kernel learn queues of topics that the broker knows."""

    def __init__(self, store: MessageStore, topics: TopicTable, announcements: Announcements) -> None:
        self._store = store
        self._topics = topics
        self._announcements = announcements

    @property
    def revision(self) -> int:
        """Changes when what was learnt is to be forgotten."""
        return self._topics.revision

    def teach(self, learner: Learner, topic: str, queue_id: int) -> None:
        """Let a part of the kernel store the next messages in a queue that just got one."""
        queue = self._store.queue(topic, queue_id) if 0 <= queue_id <= _QUEUE_ID_MAX else None
        if queue is None or not topic.isascii() or len(topic) > TOPIC_BYTES_MAX_V1:
            return
        # Messages in other topics of the broker's own are looked at by their kinds.
        is_known = topic in self._topics.configs and not queue.followed
        if is_known or topic == system_names.TRANSACTION_OP_HALF:
            self._announcements.watch(queue)
            learner.learn(topic.encode(), queue_id, queue)


class Deliveries:
    """Stores messages that are due in their own topics, as far as the kernel can."""

    def __init__(
        self,
        plan: "DuePlan",
        store: MessageStore,
        teacher: QueueTeacher,
        announcements: Announcements,
        clock: Clock,
    ) -> None:
        self._plan = plan
        self._store = store
        self._teacher = teacher
        self._announcements = announcements
        self._now_ms = clock.now_ms
        self._revision = -1

    def deliver(self, positions: "bytes | array[int]", timed_topic: str | None = None) -> "array[int]":
        """Store the messages that wait at positions of the log, from the first on as far as they are plain.

        Return where they are in the log now. None of them is stored when the store takes none, or when the
        first is not plain. With a `timed_topic` they must be of it, and each names the record that waited.
        """
        plan, store = self._plan, self._store
        if self._revision != self._teacher.revision:
            self._revision = self._teacher.revision
            plan.forget_all()
        if not plan.topic_count:
            return array("q")
        now_ms = self._now_ms()
        log_end, log_room, index_room = store.rooms()
        try:
            count = plan.plan_due(
                positions,
                log=store.log,
                timed_topic=timed_topic.encode() if timed_topic else None,
                now_ms=now_ms,
                log_end=log_end,
                log_room=log_room,
                index_room=index_room,
            )
            placed = array("q", plan.positions)
            grown = store.put_planned(plan, now_ms) if count else []
        except StoreError:
            # It is told with a reason when the next message is stored the long way.
            plan.drop()
            return array("q")
        if count:
            self._announcements.log_grew(store.log.write_s)
            self._announcements.grew_planned(grown)
        return placed

    def deliver_due(self, entries: bytes, now_ms: int, due_ms_max: int) -> "array[int]":
        """Store messages as `deliver` does, by the entries of their queue, up to the first that is due later.

        One that is due behind `due_ms_max` is due now, too.
        """
        return self.deliver(self._plan.positions_due(entries, now_ms, due_ms_max))

    def learn(self, topic: str, queue_id: int) -> None:
        """Let the kernel have the next messages that belong in a queue which just got one."""
        self._teacher.teach(self._plan, topic, queue_id)


def make_deliveries(
    store: MessageStore,
    teacher: QueueTeacher,
    announcements: Announcements,
    clock: Clock,
) -> Deliveries:
    """Return what delivers with the kernel."""
    # Only now: without a compiler there is nothing to import.
    from pyromq._kernel.storage.again import DuePlan

    settings = store.settings
    plan = DuePlan(
        # Each message keeps the hosts of the record that waited.
        store_host=bytes(HOST_BYTES_V4),
        has_index=settings.message_index_enable,
        body_bytes_max=settings.max_message_size,
    )
    return Deliveries(plan, store, teacher, announcements, clock)
