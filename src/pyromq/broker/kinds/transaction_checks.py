"""Asks producers about the transactions that nobody ended.

Every `transactionCheckInterval` the half queue is read from its progress on. A half that is old enough is
stored again behind the others with one more count in TRANSACTION_CHECK_TIMES, and a member of its producer
group that may send to its topic, another one each time, is sent CHECK_TRANSACTION_STATE; it answers with
END_TRANSACTION. After `transactionCheckMax` questions, or when the half is older than the log is kept, it
goes to TRANS_CHECK_MAX_TIME_TOPIC, where operators find it. The last question has its interval too: a half is
given up `transactionCheckInterval` after it was stored for that question, and until then its answer counts.
RocketMQ gives it up in the pass that asks, and delivers its message all the same if the answer is a commit.

A half is left alone for `transactionTimeOut` after its birth, or for as long as its own
CHECK_IMMUNITY_TIME_IN_SECONDS says. The first that is too young ends the pass, for those behind it are
younger; one with an immunity of its own is stored again instead, so that it holds up no others. RocketMQ
counts that as a question; we do not, or a long immunity would use up all of them unasked.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

import msgspec

from pyromq import system_names
from pyromq.broker.background import wait_until
from pyromq.broker.durability.write_path import WritePath
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.kinds.half_drafts import committed_draft, given_up_draft, op_draft
from pyromq.broker.kinds.half_messages import HalfMessages
from pyromq.broker.kinds.stored_again import QUEUE_ID, draft_of
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import RequestCode
from pyromq.config.settings import BrokerProcess
from pyromq.errors import MessageIllegal, Refused
from pyromq.net.routes import Caller
from pyromq.store.store import MessageStore, Placed
from pyromq.wire import properties as names
from pyromq.wire.command import Command
from pyromq.wire.header import write_header
from pyromq.wire.headers.transaction_headers import CheckTransactionState
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.record import Record, encode_record

log = logging.getLogger(__name__)

#: Halves that are looked at before other work of the loop gets its turn.
TURN_HALVES_MAX = 64
TURN_OPS_MAX = 4096
HOUR_MS = 3_600_000
QUEUE_COUNT = 1


class TransactionChecks:
    """The passes over the half queue."""

    def __init__(
        self,
        write: WritePath,
        *,
        halves: HalfMessages,
        store: MessageStore,
        topics: TopicTable,
        groups: Groups,
        settings: BrokerProcess,
        clock: Clock,
        may_publish: Callable[[Caller | None, str], bool],
    ) -> None:
        self._intake = write.intake
        self._durability = write.durability
        self._halves = halves
        self._store = store
        self._topics = topics
        self._producers = groups.producers
        self._settings = settings.broker
        self._store_settings = settings.store
        #: Whether a half is to be given up, and the topic for it is not on disk yet.
        self._is_topic_unsaved = False
        #: Until when the answer to the last question about the oldest half is waited for; 0 when none is.
        self._last_answer_until_ms = 0
        #: Halves of this pass about which nobody could be asked, by producer group and topic.
        self._unasked: Counter[tuple[str, str]] = Counter()
        self._clock = clock
        self._may_publish = may_publish

    async def check(self) -> None:
        """Make one pass, and note its progress once the disk has what was stored again."""
        self._topics.ensure(system_names.TRANSACTION_HALF, queue_count=QUEUE_COUNT)
        started_ms = self._clock.now_ms()
        try:
            is_more = True
            while is_more:
                is_more = all(self._look_at_next(started_ms) for _ in range(TURN_HALVES_MAX))
                if self._is_topic_unsaved:
                    await self._topics.save()
                    self._is_topic_unsaved, is_more = False, True
                if self._last_answer_until_ms:
                    await self._wait_for_last_answer()
                    is_more = True
                await asyncio.sleep(0)
        except Refused as refusal:
            log.warning("transactions are not checked, the store takes no messages: %s", refusal)
        self._tell_unasked()
        is_more = True
        while is_more:
            is_more = self._halves.pass_old_ops(TURN_OPS_MAX)
            await asyncio.sleep(0)
        await self._halves.save(self._durability)

    def _tell_unasked(self) -> None:
        """Log for whose transactions there was nobody to be asked in this pass, once for each group."""
        for (group, topic), count in self._unasked.items():
            log.warning(
                "no member of producer group %s that may send to %s is here to be asked about %d halves",
                group,
                topic,
                count,
            )
        self._unasked.clear()

    async def _wait_for_last_answer(self) -> None:
        """Wait for the rest of the last question's interval: no longer than the pass that asked it took."""
        left_ms = self._last_answer_until_ms - self._clock.now_ms()
        self._last_answer_until_ms = 0
        await wait_until(self._clock, self._clock.monotonic() + left_ms / 1000)

    def _look_at_next(self, started_ms: int) -> bool:
        """Deal with the oldest half; return whether the pass goes on behind it."""
        halves = self._halves
        offset = halves.progress
        if halves.is_decided(offset):
            halves.pass_on()
            return True
        half = halves.find(offset)
        if half is None:
            return self._pass_missing(offset)
        if halves.latest_offset(half) != offset:
            halves.pass_on()
            return True
        if not self._deal_with(half, started_ms):
            return False
        halves.pass_on()
        return True

    def _pass_missing(self, offset: int) -> bool:
        if offset >= self._store.max_offset(system_names.TRANSACTION_HALF, QUEUE_ID):
            return False
        low = self._store.min_offset(system_names.TRANSACTION_HALF, QUEUE_ID)
        log.warning("half message %d is gone before it was decided; the log was cleaned", offset)
        self._halves.start_at(max(offset + 1, low))
        return True

    def _deal_with(self, half: Record, started_ms: int) -> bool:
        """Give the half up, store it again, or ask about it; return False when it is too young for that."""
        if half.stored_at_ms >= started_ms:
            return False
        properties = names.decode(half.properties)
        now_ms = self._clock.now_ms()
        age_ms = now_ms - half.born_at_ms
        check_times = _number(properties.get(names.TRANSACTION_CHECK_TIMES), default=0)
        kept_ms = self._store_settings.file_reserved_time * HOUR_MS
        if check_times >= self._settings.transaction_check_max or age_ms > kept_ms:
            until_ms = half.stored_at_ms + self._settings.transaction_check_interval
            if check_times > 0 and now_ms < until_ms:
                self._last_answer_until_ms = until_ms
                return False
            return self._give_up(half)
        immunity = properties.get(names.CHECK_IMMUNITY_TIME_IN_SECONDS)
        # A producer whose clock is ahead of ours is asked at once, as with RocketMQ.
        is_young = age_ms < self._immunity_ms(immunity) and (immunity is not None or age_ms >= 0)
        if is_young and immunity is None:
            return False
        try:
            if is_young:
                properties.setdefault(names.TRANSACTION_PREPARED_QUEUE_OFFSET, str(half.queue_offset))
                properties[names.WAIT] = "false"
                self._store_again(half, properties)
            else:
                properties[names.TRANSACTION_CHECK_TIMES] = str(check_times + 1)
                self._ask(half, properties, self._store_again(half, properties))
        except MessageIllegal:
            # Its properties have no room for one more: it must not keep the others from being asked about.
            return self._give_up(half)
        return True

    def _immunity_ms(self, seconds_text: str | None) -> int:
        seconds = _number(seconds_text, default=-1)
        return self._settings.transaction_time_out if seconds == -1 else seconds * 1000

    def _store_again(self, half: Record, properties: dict[str, str]) -> Placed:
        draft = draft_of(half)
        draft.properties = names.encode(properties)
        return self._intake.put_as_is(draft)

    def _give_up(self, half: Record) -> bool:
        """Put a half where operators find it; return False if the topic for it must be saved first.

        After a crash nobody would make the topic again, and its messages could not be read.
        """
        topic = system_names.TRANSACTION_CHECK_MAX_TIME
        self._topics.ensure(topic, queue_count=QUEUE_COUNT)
        if not self._topics.has_saved(topic):
            self._is_topic_unsaved = True
            return False
        log.error(
            "transaction %s of group %s was never decided; it is in %s now",
            names.find_text(half.properties, names.UNIQ_KEY),
            names.find_text(half.properties, names.PRODUCER_GROUP),
            topic,
        )
        op = op_draft(half.queue_offset, now_ms=self._clock.now_ms(), host=half.store_host)
        try:
            # RocketMQ writes no op message here, and gives the half up once more after a crash.
            self._intake.put_together([given_up_draft(half), op])
        except MessageIllegal:
            log.exception("half message %d is larger than messages may be now; dropped", half.queue_offset)
            self._halves.decide(half.queue_offset)
        return True

    def _ask(self, half: Record, properties: dict[str, str], placed: Placed) -> None:
        group = properties.get(names.PRODUCER_GROUP, "")
        topic = properties.get(names.REAL_TOPIC, "")
        command = check_command(half, properties, placed)
        if command is None:
            log.error("half message %d does not say where it belongs", half.queue_offset)
            return
        # The question has the message in it, and any client may say that it is in any producer group.
        link = self._producers.any_link(group, lambda client: self._may_publish(client.caller, topic))
        if link is None:
            self._unasked[group, topic] += 1
            return
        link.oneway(command)


def check_command(half: Record, properties: dict[str, str], placed: Placed) -> Command | None:
    """Return the question about a half that was stored again, or None when it does not name its topic.

    The body is the message as it will be: real topic and queue, but the half's new offset and position.
    """
    draft = committed_draft(half)
    if draft is None:
        return None
    unique_id = properties.get(names.UNIQ_KEY)
    record = msgspec.structs.replace(
        half,
        topic=draft.topic,
        queue_id=draft.queue_id,
        queue_offset=placed.queue_offset,
        position=placed.position,
        properties=names.encode({**properties, names.WAIT: "false"}),
    )
    header = CheckTransactionState(
        tran_state_table_offset=placed.queue_offset,
        commit_log_offset=placed.position,
        msg_id=unique_id,
        transaction_id=unique_id,
        offset_msg_id=offset_message_id(half.store_host, placed.position),
    )
    return Command(RequestCode.CHECK_TRANSACTION_STATE, ext=write_header(header), body=encode_record(record))


def _number(text: str | None, *, default: int) -> int:
    """Return the number that a property holds; `default` when it holds none."""
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        return default
