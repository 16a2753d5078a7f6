"""Sends without a Python object for each: the compiled kernel between a link and the store.

    what links received ─► Sends.plan ─► one write to the log ─► Sends.apply ─► answers
                             │ leaves a link at its first frame that is not a plain send to a known queue
                             ▼
                           SendHandlers, which makes the queue known when its message was plain

What links receive in a turn of the loop is handled together, at its end or as soon as it is much
(`net/turn.py`).

Every decision about a message is taken in `handlers/send_handlers.py`, for the first message to a topic, and
for the first that waits in a queue of the broker's own; the kernel repeats it for the next ones, until a
topic's configuration or a live setting changes. Whether sends
are taken and acknowledged at all is decided in `durability/acknowledgement.py`, as on the long way. When the
kernel cannot do something (a full disk, a new file of the log) its plan ends, and the message takes the long
way.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyromq.broker.delivery.pull_delivery import PullDelivery
from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.durability.log_sync import NotSafe
from pyromq.broker.live_settings import BrokerLiveSettings
from pyromq.broker.requests.answer_parts import binary_parts, json_parts, sent_ext
from pyromq.broker.requests.busy import PressedQueue
from pyromq.broker.topics.intake import PlainDiversion, PlainDiversions
from pyromq.broker.topics.topic_names import RETRY_PREFIX
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import VERSION, VERSION_5, Language, ResponseCode, SysFlag
from pyromq.errors import Refused, StoreError
from pyromq.net.link import Link
from pyromq.store.store import MessageStore
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.command import CommandReader, encode
from pyromq.wire.record import HOST_BYTES_V4, TOPIC_BYTES_MAX_V1

if TYPE_CHECKING:
    from pyromq._kernel.requests.sends import Sends
    from pyromq._kernel.storage.diversions import Diversion

MULTI_TAG: Final = "MULTI_TAG"
#: Queues of a topic that are learnt with its first message.
QUEUES_AT_ONCE: Final = 256


class FastSends:
    """Offers received bytes to the kernel, and teaches it queues. `take` is a shortcut of links."""

    def __init__(
        self,
        sends: "Sends",
        *,
        store: MessageStore,
        topics: TopicTable,
        delivery: PullDelivery,
        durability: Durability,
        live: BrokerLiveSettings,
        queue: PressedQueue,
        clock: Clock,
    ) -> None:
        self._sends = sends
        #: What the kernel may repeat of the diversions, as the settings are now.
        self.plain_diversions: PlainDiversions = lambda: ()
        self._queue = queue
        self._store = store
        self._log = store.log
        self._topics = topics
        self._announcements = delivery.announcements
        self._durability = durability
        self._common_ext = sent_ext(live.now.broker)
        self._under_way_max = live.now.net.requests_under_way_max
        self._live = live
        self._settings = live.now.broker
        self._now_ms = clock.now_ms
        self._topics_revision = self._live_revision = -1
        #: Topics whose queues were learnt together.
        self._learnt: set[str] = set()
        #: The kernel's diversions, by the property that asks.
        self._diversions: dict[str, Diversion] = {}
        delivery.arrivals.on_hold = self._watch

    def take(self, links: list[Link]) -> bool:
        """Handle the plain sends at the front of what links received; return whether there was one."""
        if not self._sends.may_plan(links):
            # A turn with one pull: to plan nothing costs half as much as a send.
            return False
        if self._topics_revision != self._topics.revision or self._live_revision != self._live.revision:
            self._forget_if_changed()
            return False
        now_ms = self._now_ms()
        # The clock may have been set back since the queues were learnt.
        if now_ms < self._settings.start_accept_send_request_time_stamp:
            return False
        sends, store = self._sends, self._store
        first, count, has_handled = 0, len(links), False
        while first < count:
            log_end, log_room, index_room = store.rooms()
            try:
                first = sends.plan(links, first, self._under_way_max, now_ms, log_end, log_room, index_room)
                if not sends.count:
                    continue
                grown = store.put_planned(sends, now_ms)
            except StoreError:
                # It is refused with a reason when Python takes the same frames up.
                sends.drop()
                return has_handled
            has_handled = True
            if self._durability.log_grew(self._log.write_s):
                sends.hand_out()
            else:
                self._hand_out_when_safe(self._log.end)
            if grown:
                self._announcements.grew_planned(grown)
        return has_handled

    def _hand_out_when_safe(self, log_end: int) -> None:
        """Let the answers leave to messages that the log has up to its end, when they may."""
        if not self._durability.is_immediate:
            self._answer_when_safe(log_end)
            return
        try:
            self._durability.vouch()
        except Refused as refusal:
            for link, answers, _ in self._sends.take():
                # A oneway send has no answer.
                if answers:
                    link.send_frames(self._with(refusal, answers))
        else:
            self._sends.hand_out()

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
        queue_count = max(config.write_queue_nums, config.read_queue_nums)
        if topic not in self._learnt:
            self._learnt.add(topic)
            queue_ids.update(range(min(queue_count, QUEUES_AT_ONCE)))
        multi_tags = int(SysFlag.MULTI_TAGS) if config.topic_filter_type == MULTI_TAG else 0
        self._sends.learn_topic(topic.encode(), multi_tags, queue_count)
        for one in queue_ids:
            queue = self._store.queue(topic, one)
            if queue is not None:
                self._announcements.watch(queue)
                self._sends.learn(topic.encode(), one, queue, multi_tags)

    def learn_diverted(self, topic: str, queue_id: int) -> None:
        """Let the kernel have the next messages that wait in a queue, which just got one."""
        self._forget_if_changed()
        queue = self._store.queue(topic, queue_id)
        for plain in self.plain_diversions():
            if plain.topic == topic and queue is not None:
                diversion = self._diversions.get(plain.name)
                if diversion is None:
                    diversion = kernel_diversion(plain, self._settings.broker_name)
                    self._diversions[plain.name] = diversion
                diversion.learn(queue_id, queue)
                self._sends.divert(diversion)

    def _forget_if_changed(self) -> None:
        topics_revision, live_revision = self._topics.revision, self._live.revision
        if self._topics_revision != topics_revision or self._live_revision != live_revision:
            self._topics_revision, self._live_revision = topics_revision, live_revision
            self._learnt.clear()
            self._diversions.clear()
            self._sends.forget_all()

    def _watch(self, topic: str, queue_id: int) -> None:
        queue = self._store.queue(topic, queue_id)
        if queue is not None:
            queue.watched = True

    def _answer_when_safe(self, log_end: int) -> None:
        """Let answers leave when the log is safe up to its end, with all others of this turn of the loop."""
        withheld, queue = self._sends.withhold(), self._queue
        count = withheld.count
        queue.count += count

        def settle(error: Exception | None) -> None:
            queue.count -= count
            if error is None:
                withheld.let_go()
                return
            for link, answers in withheld.each():
                if answers:
                    link.send_frames(self._with(error, answers))
                link.settled_one()

        self._durability.with_this_turn(log_end, settle)

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
                if answer.ext:
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
    from pyromq._kernel.requests.sends import Sends

    varying = {"msgId": None, "queueId": None, "queueOffset": None}
    answers: list[dict[str, str | None]] = [
        {**varying, **more, **common_ext, **handle}
        for handle in ({}, {"recallHandle": None})
        for more in ({}, {"transactionId": None})
    ]
    return Sends(
        store_host=store_host,
        cluster=cluster.encode(),
        answers=[(json_parts(fields), binary_parts(fields)) for fields in answers],
        transaction_id_from=VERSION_5,
        diverting=tuple(name.encode() for name in diverting),
        wait_matters=wait_matters,
        has_index=has_index,
        body_bytes_max=body_bytes_max,
        language=int(Language.JAVA),
        version=VERSION,
    )


def kernel_diversion(plain: PlainDiversion, broker_name: str) -> "Diversion":
    """Return the kernel's part of a diversion; the broker takes messages back that have its name."""
    # Only now, as above.
    from pyromq._kernel.storage.diversions import Diversion

    return Diversion(
        name=plain.name.encode(),
        topic=plain.topic.encode(),
        word=None if plain.word is None else plain.word.encode(),
        delays_ms=plain.delays_ms,
        unit_ms=plain.unit_ms,
        delay_ms_max=plain.delay_ms_max,
        due_name=None if plain.due_name is None else plain.due_name.encode(),
        excludes=tuple(name.encode() for name in plain.excludes),
        cleared=plain.cleared,
        recalled_by=broker_name.encode() if plain.is_recallable else None,
    )


#: What `SendHandlers` calls after a message was stored: with its topic's configuration and queue, and with
#: the topic and the queue of the broker's own in which it waits.
Learn = Callable[[TopicConfig, int], Any]
LearnDiverted = Callable[[str, int], Any]
