"""Sends without a Python object for each: the compiled kernel between a link and the store.

    received bytes ─► Sends.plan ─► one write to the log ─► Sends.apply ─► answers
                        │ stops at the first frame that is not a plain send to a known queue
                        ▼
                      SendHandlers, which makes the queue known when its message was plain

Every decision is taken in `handlers/send.py`, for the first message to a topic; the kernel repeats it for the
next ones, until any topic's configuration or any live setting changes. Whatever the kernel cannot do (a full
disk, a new file of the log) ends its plan, and the message takes the long way.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyromq.broker.announcements import Announcements
from pyromq.broker.answer_parts import binary_parts, json_parts
from pyromq.broker.arrivals import Arrivals
from pyromq.broker.busy import Busy, Refusal, refusal_parts
from pyromq.broker.durability import Durability, NotSafe
from pyromq.broker.live_settings import LiveSettings
from pyromq.broker.topic_names import RETRY_PREFIX
from pyromq.broker.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import VERSION, VERSION_5, Language, ResponseCode, SysFlag
from pyromq.errors import Refused, StoreError
from pyromq.net.link import Link
from pyromq.store.store import MessageStore
from pyromq.wire.bodies.topics import TopicConfig
from pyromq.wire.command import CommandReader, encode
from pyromq.wire.record import HOST_BYTES_V4, TOPIC_BYTES_MAX_V1

if TYPE_CHECKING:
    from pyromq._kernel.sends import Sends

MULTI_TAG: Final = "MULTI_TAG"
#: Queues of a topic that are learnt with its first message.
QUEUES_AT_ONCE: Final = 256
#: A connection, what it has under way, the answers that wait, and to how many sends.
_Waiting = tuple[Link, "asyncio.Future[None]", bytes, int]


class FastSends:
    """Offers received bytes to the kernel, and teaches it queues. Links have it as their shortcut."""

    def __init__(
        self,
        sends: "Sends",
        *,
        store: MessageStore,
        topics: TopicTable,
        arrivals: Arrivals,
        announcements: Announcements,
        log_grew: Callable[[], None],
        durability: Durability,
        common_ext: dict[str, str],
        requests_under_way_max: int,
        live: LiveSettings,
        busy: Busy,
        clock: Clock,
    ) -> None:
        self._sends = sends
        self._busy = busy
        self._store = store
        self._topics = topics
        self._arrivals = arrivals
        self._announcements = announcements
        self._log_grew = log_grew
        self._durability = durability
        self._common_ext = common_ext
        self._under_way_max = requests_under_way_max
        self._live = live
        self._settings = live.now.broker
        self._now_ms = clock.now_ms
        self._revision = (-1, -1)
        #: Topics whose queues were learnt together.
        self._learnt: set[str] = set()
        #: Who waits for what was stored in this turn of the loop, and where the log ends behind that.
        self._turn: list[_Waiting] = []
        self._turn_end = 0
        arrivals.on_hold = self._watch

    def __call__(self, link: Link, reader: CommandReader, answer_bytes_max: int) -> bool:
        """Handle the plain sends at the front of what was received; return whether there was one."""
        topics_revision, live_revision = self._revision
        if topics_revision != self._topics.revision or live_revision != self._live.revision:
            self._forget_if_changed()
            return False
        now_ms = self._now_ms()
        # The clock may have been set back since the queues were learnt.
        if now_ms < self._settings.start_accept_send_request_time_stamp:
            return False
        if len(link.under_way) >= self._under_way_max:
            return False
        busy = self._busy
        refusal = busy.refusal(busy.sends, link)
        if refusal is not None:
            return self._refuse(link, reader, answer_bytes_max, refusal)
        sends, store = self._sends, self._store
        received, start = reader.pending
        end = sends.plan(
            received,
            start,
            now_ms=now_ms,
            born_host=link.peer_host_bytes,
            log_end=store.max_position,
            log_room=store.log_room,
            index_room=store.index_room,
            answer_bytes_max=answer_bytes_max,
        )
        if end == start:
            return False
        answers, log_end, count = sends.answers, sends.end, sends.count
        try:
            grown = store.put_planned(sends, now_ms)
        except StoreError:
            # It is refused with a reason when Python takes the same frames up.
            sends.drop()
            return False
        reader.skip_to(end)
        self._log_grew()
        if self._durability.is_immediate:
            if answers:
                self._answer_now(link, answers)
        else:
            self._answer_when_safe(link, answers, log_end, count)
        for queue, first in grown:
            self._announcements.grew(queue.topic, queue.queue_id, first, queue.end)
            queue.watched = self._is_awaited(queue.topic, queue.queue_id)
        return True

    def learn(self, config: TopicConfig, queue_id: int) -> None:
        """Let the kernel have the next plain messages to a queue that just got one.

        What was decided holds for the topic's other queues as well: those that have messages are learnt with
        the first, so that not each of them has a batch of thousands go the long way.
        """
        self._forget_if_changed()
        topic = config.topic_name
        if topic.startswith(RETRY_PREFIX) or not topic.isascii() or len(topic) > TOPIC_BYTES_MAX_V1:
            return
        if not self._topics.has_saved(topic):
            return
        queue_ids = {queue_id}
        if topic not in self._learnt:
            self._learnt.add(topic)
            queue_count = max(config.write_queue_nums, config.read_queue_nums)
            queue_ids.update(range(min(queue_count, QUEUES_AT_ONCE)))
        multi_tags = int(SysFlag.MULTI_TAGS) if config.topic_filter_type == MULTI_TAG else 0
        for one in queue_ids:
            queue = self._store.queue(topic, one)
            if queue is not None:
                queue.watched = self._is_awaited(topic, one)
                self._sends.learn(topic.encode(), one, queue, multi_tags)

    def _forget_if_changed(self) -> None:
        revision = (self._topics.revision, self._live.revision)
        if self._revision != revision:
            self._revision = revision
            self._learnt.clear()
            self._sends.forget_all()

    def _is_awaited(self, topic: str, queue_id: int) -> bool:
        return self._announcements.are_held_back or self._arrivals.is_awaited(topic, queue_id)

    def _watch(self, topic: str, queue_id: int) -> None:
        queue = self._store.queue(topic, queue_id)
        if queue is not None:
            queue.watched = True

    def _answer_now(self, link: Link, answers: bytes) -> None:
        try:
            self._durability.vouch()
        except Refused as refusal:
            answers = self._with(refusal, answers)
        link.send_frames(answers)

    def _refuse(self, link: Link, reader: CommandReader, answer_bytes_max: int, refusal: Refusal) -> bool:
        """Refuse the sends at the front of what was received; return whether there was one."""
        # Only now: without a compiler there is nothing to import, and no such object either.
        from pyromq._kernel.refusals import refuse_sends

        received, start = reader.pending
        before, after, binary = refusal_parts(refusal.remark)
        end, answers, count = refuse_sends(
            received,
            start,
            json_before=before,
            json_after=after,
            binary=binary,
            answer_bytes_max=answer_bytes_max,
        )
        if not count:
            return False
        reader.skip_to(end)
        self._busy.note(self._busy.sends, refusal.reason, count)
        link.send_frames(answers)
        return True

    def _answer_when_safe(self, link: Link, answers: bytes, log_end: int, count: int) -> None:
        """Let answers leave when the log is safe up to its end, with all others of this turn of the loop."""
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[None] = loop.create_future()
        link.under_way.add(settled)
        if not self._turn:
            loop.call_soon(self._end_turn)
        self._turn.append((link, settled, answers, count))
        self._busy.sends.count += count
        self._turn_end = log_end

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, []
        self._durability.when_safe(self._turn_end, partial(self._settle, turn))

    def _settle(self, turn: list[_Waiting], error: Exception | None) -> None:
        for link, settled, answers, count in turn:
            self._busy.sends.count -= count
            link.under_way.discard(settled)
            if not settled.done():
                settled.set_result(None)
                link.send_frames(answers if error is None else self._with(error, answers))

    def _with(self, error: Exception, answers: bytes) -> bytes:
        """Return answers that say what became of the messages instead of where they are."""
        reader = CommandReader()
        reader.feed(answers)
        frames = []
        while (answer := reader.next_command()) is not None:
            if isinstance(error, NotSafe):
                answer.code = error.code
            else:
                is_refused = isinstance(error, Refused)
                answer.code = error.code if is_refused else ResponseCode.SYSTEM_ERROR  # type: ignore[attr-defined]
                answer.remark = error.remark if is_refused else str(error)  # type: ignore[attr-defined]
                answer.ext = self._common_ext
            frames.append(encode(answer))
        return b"".join(frames)


def make_sends(
    *,
    store_host: bytes,
    cluster: str,
    common_ext: dict[str, str],
    diverting: tuple[str, ...],
    wait_matters: bool,
    has_index: bool,
    body_bytes_max: int,
) -> "Sends | None":
    """Return the kernel's part, None where it cannot be: hosts and clusters that it does not write."""
    if len(store_host) != HOST_BYTES_V4 or not cluster.isascii() or not cluster:
        return None
    # Only now: without a compiler there is nothing to import.
    from pyromq._kernel.sends import Sends

    varying = {"msgId": None, "queueId": None, "queueOffset": None}
    fields = {**varying, **common_ext}
    with_id = {**varying, "transactionId": None, **common_ext}
    return Sends(
        store_host=store_host,
        cluster=cluster.encode(),
        answer_parts=json_parts(fields),
        binary_parts=binary_parts(fields),
        answer_parts_with_id=json_parts(with_id),
        binary_parts_with_id=binary_parts(with_id),
        transaction_id_from=VERSION_5,
        diverting=tuple(name.encode() for name in diverting),
        wait_matters=wait_matters,
        has_index=has_index,
        body_bytes_max=body_bytes_max,
        language=int(Language.JAVA),
        version=VERSION,
    )


#: What `SendHandlers` calls after a plain message was stored.
Learn = Callable[[TopicConfig, int], Any]
