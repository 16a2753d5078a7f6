"""A message that was not consumed comes back: to be retried later, or to its group's dead letters.

The whole message is stored again, with its first topic in RETRY_TOPIC, the id of its first copy in
ORIGIN_MESSAGE_ID, and one more in its reconsume times. The delay grows with them: level 3 (10 s) at first,
one level more each time.

It is one message of the log: a crash leaves it there, once, or not at all. A consumer that gets no answer
sends the message to the retry topic itself, so it may come once more for each answer that was lost.
"""

from collections.abc import Awaitable, Callable
from random import randrange

from pyromq import system_names
from pyromq.broker.durability.write_path import WritePath
from pyromq.broker.groups.groups import GroupTable
from pyromq.broker.kinds.dead_letter_queue import bury, existing_group, times_max
from pyromq.broker.kinds.stored_again import draft_of
from pyromq.broker.topics import topic_names
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import Perm, ResponseCode, TopicSysFlag
from pyromq.config.settings import BrokerSettings
from pyromq.errors import NoPermission, ServerFailed
from pyromq.net.routes import Answer, Request
from pyromq.store.store import Draft, MessageStore
from pyromq.wire import properties as names
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.headers.transaction_headers import ConsumerSendMessageBack
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.record import Record

SendBack = Request[ConsumerSendMessageBack]
#: The delay level of the first retry.
FIRST_LEVEL = 3


class RetryHandlers:
    """Answers CONSUMER_SEND_MSG_BACK."""

    def __init__(
        self,
        write: WritePath,
        *,
        store: MessageStore,
        topics: TopicTable,
        groups: GroupTable,
        settings: BrokerSettings,
    ) -> None:
        self._intake = write.intake
        self._durability = write.durability
        self._broker_ip = write.addresses.ip
        self._store = store
        self._topics = topics
        self._groups = groups
        self._settings = settings
        #: Told of a group, its retry topic, and the delay level in which its message waits.
        self.learn: Callable[[SubscriptionGroupConfig, str, int], None] | None = None

    def send_back(self, request: SendBack) -> Answer | Awaitable[Answer]:
        """Store a message again for a later try. A group without retry queues wants none: nothing is done.

        The consumer forgets the message when it is answered, so under synchronous flush the disk has it then,
        and the topics that were made for it are on disk whichever flush: nobody would make the topic of dead
        letters again.
        """
        header = request.header
        config = existing_group(self._groups, header.group)
        if not self._settings.broker_permission & Perm.WRITE:
            raise NoPermission(
                ResponseCode.NO_PERMISSION, f"the broker[{self._broker_ip}] sending message is forbidden"
            )
        if config.retry_queue_nums <= 0:
            return Answer()
        topic = self._retry_topic(header, config)
        record = self._store.record_at(header.offset)
        if record is None:
            raise ServerFailed(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}")
        draft = draft_of(record)
        draft.topic, draft.queue_id = topic, randrange(config.retry_queue_nums)
        draft.reconsume_times += 1
        properties = self._retried_properties(record)
        self._choose_fate(draft, properties, request, config)
        draft.properties = names.encode(properties)
        is_saved = self._topics.has_saved(topic, draft.topic)
        placed = self._intake.put(draft, properties)
        if is_saved:
            if self.learn is not None and draft.topic == system_names.SCHEDULE:
                self.learn(config, topic, draft.queue_id + 1)
            return self._durability.acknowledge(placed.end, Answer())
        return self._answer_when_saved(placed.end)

    async def _answer_when_saved(self, end: int) -> Answer:
        await self._topics.save()
        answer = self._durability.acknowledge(end, Answer())
        return answer if isinstance(answer, Answer) else await answer

    def _retry_topic(self, header: ConsumerSendMessageBack, config: SubscriptionGroupConfig) -> str:
        topic = topic_names.retry_topic(header.group)
        sys_flag = TopicSysFlag.UNIT_SUB if header.unit_mode else 0
        topic_config = self._topics.ensure(topic, queue_count=config.retry_queue_nums, sys_flag=sys_flag)
        if not topic_config.perm & Perm.WRITE:
            raise NoPermission(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
        return topic

    def _retried_properties(self, record: Record) -> dict[str, str]:
        properties = names.decode(record.properties)
        properties.setdefault(names.RETRY_TOPIC, record.topic)
        properties.setdefault(names.ORIGIN_MESSAGE_ID, offset_message_id(record.store_host, record.position))
        properties[names.WAIT] = "false"
        return properties

    def _choose_fate(
        self,
        draft: Draft,
        properties: dict[str, str],
        request: SendBack,
        config: SubscriptionGroupConfig,
    ) -> None:
        header = request.header
        tried = draft.reconsume_times - 1
        limit = times_max(config, header.max_reconsume_times, request.command.version)
        if tried >= limit or header.delay_level < 0:
            bury(draft, properties, header.group, self._topics)
        else:
            properties[names.DELAY] = str(header.delay_level or FIRST_LEVEL + tried)
