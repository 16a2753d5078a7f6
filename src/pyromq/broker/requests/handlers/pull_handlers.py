"""Pull messages, and wait for them.

    checks ─► read ─► found            answer at once
                   ├► nothing yet      hold: woken by a message that is wanted, or when the time is up,
                   │                   then all of it again, and this time the answer leaves
                   └► offset is wrong  answer with the offset to go on from

The records of the log are the records on the wire; nothing is parsed in between. Only for a filter by SQL the
properties of each record are looked at: of a few hundred in one pull (`store/reading.py`), and in one pull in
a turn of the loop (`Turn.take`), so that no group's filter holds up the others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from pyromq.broker.delivery.arrivals import HeldPull
from pyromq.broker.delivery.offset_events import OffsetEvents
from pyromq.broker.delivery.pull_delivery import PullDelivery
from pyromq.broker.delivery.sql_filters import SQL92, tag_test
from pyromq.broker.durability.write_path import WritePath
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.topics.intake import FAQ
from pyromq.broker.topics.topic_names import RETRY_PREFIX
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import Perm, PullFlag, RequestCode, ResponseCode
from pyromq.config.choices import BrokerRole
from pyromq.config.settings import BrokerSettings
from pyromq.errors import NoPermission, Refused, ServerFailed, ServiceNotAvailable, TopicNotFound
from pyromq.net.routes import Answer, Request
from pyromq.net.turn import Turn
from pyromq.store.reading import GetStatus, Got, MatchesRecord, WantsTags
from pyromq.store.store import MessageStore
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.heartbeat_bodies import MessageModel, Subscription
from pyromq.wire.command import Command
from pyromq.wire.headers.pull_headers import PullMessage

PullRequest = Request[PullMessage]
Pulled = Answer | Awaitable[Answer]

MASTER_ID = 0
_NO_COMMAND = Command(RequestCode.PULL_MESSAGE)

_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}
#: Offset 0 of a queue that does not exist yet is where it will begin; any other one is wrong.
_EMPTY_QUEUE = (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The filter of a pull, by the code of the messages' tags and by their properties; None: all messages."""

    tags: WantsTags | None = None
    matches: MatchesRecord | None = None


@dataclass(frozen=True, slots=True)
class _Reading:
    """The answer to a pull that passed its checks, and the filter it was read with."""

    answer: Answer
    wanted: _Wanted


class PullHandlers:
    """Answers PULL_MESSAGE and LITE_PULL_MESSAGE."""

    def __init__(
        self,
        *,
        store: MessageStore,
        topics: TopicTable,
        groups: Groups,
        delivery: PullDelivery,
        write: WritePath,
        settings: BrokerSettings,
        clock: Clock,
        turn: Turn,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups.table
        self._consumers = groups.consumers
        self._offsets = groups.offsets
        self._conflicts = groups.conflicts
        self._arrivals = delivery.arrivals
        self._filters = delivery.filters
        self._broker_ip = write.addresses.ip
        self._offset_events = OffsetEvents(
            write.intake,
            clock,
            broker_name=settings.broker_name,
            store_host=write.addresses.store_host,
        )
        self._settings = settings
        self._clock = clock
        self._turn = turn
        #: Told of each pull by tags that was let through, and of its test for tag codes.
        self.learn: Callable[[PullMessage, WantsTags | None], None] | None = None
        #: Told of each pull: its group and topic, how many messages it found, and their bytes.
        self.on_read: Callable[[str, str, int, int], None] = lambda *_: None

    def pull(self, request: PullRequest) -> Pulled:
        """Answer with messages, or hold the request until there are some."""
        # A pull has no body, and only its header is looked at: whatever else was sent must not wait with it.
        request = Request(_NO_COMMAND, request.header, request.link)
        if self._is_by_sql(request.header) and not self._turn.take():
            return self._pull_in_turn(request)
        return self._pull(request)

    async def _pull_in_turn(self, request: PullRequest) -> Answer:
        await self._turn.wait()
        pulled = self._pull(request)
        return pulled if isinstance(pulled, Answer) else await pulled

    def _is_by_sql(self, header: PullMessage) -> bool:
        if header.sys_flag & PullFlag.SUBSCRIPTION:
            return header.expression_type == SQL92
        consumers = self._consumers.get(header.consumer_group)
        subscription = None if consumers is None else consumers.subscriptions.get(header.topic)
        return subscription is not None and subscription.expression_type == SQL92

    def _pull(self, request: PullRequest) -> Pulled:
        header = request.header
        reading = self._read(request)
        if self.learn is not None and reading.wanted.matches is None and not self._has_refused(header):
            self.learn(header, reading.wanted.tags)
        if header.sys_flag & PullFlag.COMMIT_OFFSET and self._settings.broker_role != BrokerRole.SLAVE:
            self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        has_room = self._arrivals.has_room(self._settings.held_pulls_max)
        is_empty = reading.answer.code == ResponseCode.PULL_NOT_FOUND
        if is_empty and header.sys_flag & PullFlag.SUSPEND and has_room:
            self._check_not_over()
            return self._hold(request, reading.wanted)
        return reading.answer

    def _check_not_over(self) -> None:
        """Refuse a pull that found nothing when the broker stops.

        A client that hears "nothing" pulls again at once, by a connection that is about to end; a Java client
        of 4.9 waits 30 s for that answer. One that is refused waits some seconds and connects anew.
        """
        if self._arrivals.is_over:
            raise ServiceNotAvailable(
                ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops; pull again in some seconds"
            )

    def _hold(self, request: PullRequest, wanted: _Wanted) -> "asyncio.Future[Answer]":
        header = request.header
        settings = self._settings
        hold_ms = (
            header.suspend_timeout_millis
            if settings.long_polling_enable
            else settings.short_polling_time_mills
        )
        later: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if later.done():
                return
            try:
                later.set_result(self.read_again(request))
            except Refused as refusal:
                # The topic or the subscription may have gone while the pull was held.
                later.set_exception(refusal)

        pull = HeldPull(
            header.queue_offset,
            self._clock.now_ms() + hold_ms,
            wanted.tags,
            wake,
            None if wanted.matches is None else partial(self._matches_at, header, wanted.matches),
            len(header.subscription or ""),
        )
        self._arrivals.hold(header.topic, header.queue_id, pull)

        def forget(future: "asyncio.Future[Answer]") -> None:
            if future.cancelled():
                self._arrivals.drop(header.topic, header.queue_id, pull)

        later.add_done_callback(forget)
        return later

    def read_again(self, request: PullRequest) -> Answer:
        """Return the answer to a pull that was held and is woken; raise Refused if it may not be any more."""
        answer = self._read(request).answer
        if answer.code == ResponseCode.PULL_NOT_FOUND:
            self._check_not_over()
        return answer

    def _matches_at(self, header: PullMessage, matches: MatchesRecord, offset: int) -> bool:
        queue = self._store.queue(header.topic, header.queue_id)
        place = None if queue is None else queue.place(offset)
        record = None if place is None else self._store.log.read(*place)
        return record is None or matches(memoryview(record))

    def _read(self, request: PullRequest) -> _Reading:
        header = request.header
        group = self._check_group(header)
        self._check_member(request)
        self._check_queue(request)
        wanted = self._filter(header, group)
        got = self._store.get(
            header.topic,
            header.queue_id,
            header.queue_offset,
            # RocketMQ answers one message to whoever asks for none.
            count_max=max(header.max_msg_nums, 1),
            bytes_max=header.max_msg_bytes,
            wants=wanted.tags,
            matches=wanted.matches,
        )
        self.on_read(header.consumer_group, header.topic, got.count, len(got.body))
        self._offsets.pulled.note(header.consumer_group, header.topic, header.queue_id, got.next_offset)
        return _Reading(self._answer(header, group, got), wanted)

    def _check_group(self, header: PullMessage) -> SubscriptionGroupConfig:
        if not self._settings.broker_permission & Perm.READ:
            raise NoPermission(
                ResponseCode.NO_PERMISSION, f"the broker[{self._broker_ip}] pulling message is forbidden"
            )
        group = self._groups.find(header.consumer_group)
        if group is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{header.consumer_group}] does not exist, {FAQ}",
            )
        if not group.consume_enable:
            raise NoPermission(
                ResponseCode.NO_PERMISSION, f"subscription group no permission, {header.consumer_group}"
            )
        if not self._groups.may_read(header.consumer_group, header.topic):
            raise NoPermission(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{header.consumer_group}] is forbidden for topic[{header.topic}]",
            )
        return group

    def _check_member(self, request: PullRequest) -> None:
        # Who is not let into a group hears it by its heartbeats; but who was in it still has queues.
        reason = self._conflicts.refusal(request.header.consumer_group, request.link)
        if reason is not None:
            raise NoPermission(ResponseCode.NO_PERMISSION, reason)

    def _has_refused(self, header: PullMessage) -> bool:
        # What is learnt is answered whoever asks.
        return self._conflicts.has_refused(header.consumer_group)

    def _check_queue(self, request: PullRequest) -> None:
        header = request.header
        topic = self._topics.get(header.topic)
        if topic is None:
            raise TopicNotFound(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist, apply first please! {FAQ}"
            )
        if not topic.perm & Perm.READ:
            raise NoPermission(
                ResponseCode.NO_PERMISSION, f"the topic[{header.topic}] pulling message is forbidden"
            )
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR,
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                # The slash is how Java prints an address.
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{request.link.peer}]",
            )

    def _filter(self, header: PullMessage, group: SubscriptionGroupConfig) -> _Wanted:
        """Return which messages are wanted, by the request itself or by the group's heartbeats."""
        if header.sys_flag & PullFlag.SUBSCRIPTION:
            if self._filters.check(header.expression_type):
                return _Wanted(matches=self._filters.test(header.subscription))
            return _Wanted(tag_test(header.subscription), self._retry_test(header))
        subscription = self._subscription(header, group)
        is_sql = self._filters.check(subscription.expression_type)
        if subscription.class_filter_mode:
            return _Wanted()
        if not is_sql:
            return _Wanted(tag_test(subscription.sub_string), self._retry_test(header))
        return _Wanted(
            matches=self._filters.group_test(
                header.topic,
                header.consumer_group,
                version=header.sub_version,
                expression=subscription.sub_string,
            )
        )

    def _retry_test(self, header: PullMessage) -> MatchesRecord | None:
        if not header.topic.startswith(RETRY_PREFIX):
            return None
        return self._filters.retry_test(header.topic.removeprefix(RETRY_PREFIX))

    def _subscription(self, header: PullMessage, group: SubscriptionGroupConfig) -> Subscription:
        """Return what the group's members subscribed to by their heartbeats."""
        consumers = self._consumers.get(header.consumer_group)
        if consumers is None:
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist{FAQ}")
        if not group.consume_broadcast_enable and consumers.message_model == MessageModel.BROADCASTING:
            raise NoPermission(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{header.consumer_group}] can not consume by broadcast way",
            )
        subscription = consumers.subscriptions.get(header.topic)
        if subscription is None:
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist{FAQ}")
        if subscription.sub_version < header.sub_version:
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        return subscription

    def _answer(self, header: PullMessage, group: SubscriptionGroupConfig, got: Got) -> Answer:
        status = got.status
        code = _CODES.get(status)
        if code is None:
            assert status in _EMPTY_QUEUE
            is_begin = header.queue_offset == 0
            code = ResponseCode.PULL_NOT_FOUND if is_begin else ResponseCode.PULL_OFFSET_MOVED
        broker_id, next_offset = MASTER_ID, got.next_offset
        if self._settings.slave_read_enable:
            broker_id = group.which_broker_when_consume_slowly if got.suggest_slave else group.broker_id
        if code == ResponseCode.PULL_OFFSET_MOVED and self._settings.broker_role == BrokerRole.SLAVE:
            # What this slave does not have yet, its master may: nobody's progress is moved from here. Whoever
            # is ahead of it waits; RocketMQ has it ask again at once, for as long as there is no master.
            is_ahead = header.queue_offset >= got.max_offset
            code = ResponseCode.PULL_NOT_FOUND if is_ahead else ResponseCode.PULL_RETRY_IMMEDIATELY
            broker_id, next_offset = group.broker_id, header.queue_offset
        elif code == ResponseCode.PULL_OFFSET_MOVED:
            self._offset_events.moved(header, next_offset)
        return Answer(
            code,
            status.name,
            ext={
                "suggestWhichBrokerId": str(broker_id),
                "nextBeginOffset": str(next_offset),
                "minOffset": str(got.min_offset),
                "maxOffset": str(got.max_offset),
            },
            body=got.body,
        )
