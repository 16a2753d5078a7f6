"""Send a message, or a batch of them.

Nothing is awaited between the checks and the append, so messages are stored in the order in which they came.
The answer leaves in the same turn of the loop; under synchronous flush it waits for the disk, and after a
send that created its topic until the topic is on disk.
"""

from collections.abc import Awaitable
from random import randrange

from pyromq import system_names
from pyromq.broker.durability.write_path import WritePath
from pyromq.broker.groups.groups import GroupTable
from pyromq.broker.kinds.dead_letter_queue import bury, existing_group, times_max
from pyromq.broker.kinds.delay import level_of
from pyromq.broker.requests.answer_parts import sent_ext
from pyromq.broker.requests.send_shortcut import MULTI_TAG, Learn, LearnDiverted
from pyromq.broker.topics import topic_names
from pyromq.broker.topics.intake import check_queue
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import TRANSACTION_MASK, VERSION_5, ResponseCode, SysFlag
from pyromq.config.settings import BrokerSettings
from pyromq.errors import MessageIllegal
from pyromq.name_rules import TOPIC_CHARACTERS_MAX
from pyromq.net.routes import Answer, Request
from pyromq.store.store import Draft, Placed
from pyromq.wire import properties as names
from pyromq.wire.batch import decode_batch
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.headers.send_headers import SendMessage, SendMessageV2
from pyromq.wire.java_hash import java_map_order
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.recall_handle import RecallHandle

SendRequest = Request[SendMessage] | Request[SendMessageV2]
Sent = Answer | Awaitable[Answer]


class SendHandlers:
    """Answers SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE."""

    def __init__(
        self,
        write: WritePath,
        *,
        topics: TopicTable,
        groups: GroupTable,
        settings: BrokerSettings,
    ) -> None:
        self._admission = write.admission
        self._intake = write.intake
        self._durability = write.durability
        self._store_host = write.addresses.store_host
        self._topics = topics
        self._groups = groups
        self._cluster = settings.broker_cluster_name
        self._broker_name = settings.broker_name
        #: Told of each queue that a plain message was stored in.
        self.learn: Learn | None = None
        #: Told of each queue of the broker's own that a message waits in.
        self.learn_diverted: LearnDiverted | None = None
        #: What every answer to a send carries, a refusal too.
        self.common_ext = sent_ext(settings)

    def send(self, request: SendRequest) -> Sent:
        """Store a message, or each message of a batch."""
        header = request.header
        config = self._admission.check_topic(header.topic) or self._admission.create_topic(header)
        sent = self._store(request, config)
        if self.learn is not None and header.queue_id >= 0:
            self.learn(config, header.queue_id)
        topics = self._topics
        is_saved = not topics.unsaved or topics.has_saved(*_topics_of(header.topic))
        return sent if is_saved else self._answer_when_saved(sent)

    async def _answer_when_saved(self, sent: Sent) -> Answer:
        # Only the answer waits, so that what is sent next keeps its place behind this message.
        await self._topics.save()
        if not isinstance(sent, Answer):
            sent = await sent
        self._durability.vouch()
        return sent

    def _store(self, request: SendRequest, config: TopicConfig) -> Sent:
        header = request.header
        queue_id = header.queue_id
        check_queue(config, queue_id, request.link.peer)
        if queue_id < 0:
            queue_id = randrange(config.write_queue_nums)
        if header.batch:
            return self._store_batch(request, config, queue_id)
        properties = names.decode(header.properties or "")
        properties[names.CLUSTER] = self._cluster
        draft = Draft(
            topic=header.topic,
            queue_id=queue_id,
            body=request.command.body,
            properties=_stored_text(properties),
            flag=header.flag,
            sys_flag=_sys_flag(header.sys_flag, config),
            born_at_ms=header.born_timestamp,
            born_host=request.link.peer_host_bytes,
            store_host=self._store_host,
            reconsume_times=header.reconsume_times or 0,
        )
        if header.topic.startswith(topic_names.RETRY_PREFIX):
            self._bury_if_given_up(draft, properties, request)
        if names.WAIT in properties:
            # RocketMQ takes it out and puts it back, so a diverted message has it last in its hash bucket.
            properties[names.WAIT] = properties.pop(names.WAIT)
        placed = self._intake.put(draft, properties)
        if self.learn_diverted is not None and draft.topic != header.topic:
            self.learn_diverted(draft.topic, draft.queue_id)
        message_id = offset_message_id(self._store_host, placed.position)
        answer = self._answer(request, properties, message_id, queue_id, placed)
        if draft.topic == system_names.WHEEL_TIMER:
            self._add_recall_handle(answer, header.topic, properties)
        return self._confirm(placed.end, answer, properties)

    def _add_recall_handle(self, answer: Answer, topic: str, properties: dict[str, str]) -> None:
        message_id = properties.get(names.UNIQ_KEY)
        if message_id is None or topic.startswith(topic_names.RETRY_PREFIX):
            return
        due_ms = int(properties[names.TIMER_OUT_MS])
        handle = RecallHandle(topic, self._broker_name, due_ms, message_id)
        answer.ext = (answer.ext or {}) | {"recallHandle": handle.encode()}

    def _store_batch(self, request: SendRequest, config: TopicConfig, queue_id: int) -> Sent:
        header = request.header
        if len(header.topic) > TOPIC_CHARACTERS_MAX:
            raise MessageIllegal(
                ResponseCode.MESSAGE_ILLEGAL, f"message topic length too long {len(header.topic)}"
            )
        properties = names.decode(header.properties or "")
        if header.sys_flag & TRANSACTION_MASK or level_of(properties) > 0:
            raise self._intake.too_large()
        properties[names.CLUSTER] = self._cluster
        common = names.encode(properties)
        sys_flag = _sys_flag(header.sys_flag, config)
        drafts = [
            Draft(
                topic=header.topic,
                queue_id=queue_id,
                body=unit.body,
                properties=names.joined(unit.properties, common),
                flag=unit.flag,
                sys_flag=sys_flag,
                born_at_ms=header.born_timestamp,
                born_host=request.link.peer_host_bytes,
                store_host=self._store_host,
                reconsume_times=header.reconsume_times or 0,
            )
            for unit in decode_batch(request.command.body)
        ]
        placed = self._intake.put_batch(drafts, request_bytes=len(request.command.body))
        ids = ",".join([offset_message_id(self._store_host, one.position) for one in placed])
        answer = self._answer(request, properties, ids, queue_id, placed[0])
        return self._confirm(placed[-1].end, answer, properties)

    def _bury_if_given_up(self, draft: Draft, properties: dict[str, str], request: SendRequest) -> None:
        """Send a retried message to its group's dead letters when it has been tried often enough."""
        group = draft.topic.removeprefix(topic_names.RETRY_PREFIX)
        config = existing_group(self._groups, group)
        if draft.reconsume_times >= times_max(
            config, request.header.max_reconsume_times, request.command.version
        ):
            bury(draft, properties, group, self._topics)
            draft.properties = _stored_text(properties)

    def _answer(
        self, request: SendRequest, properties: dict[str, str], message_id: str, queue_id: int, first: Placed
    ) -> Answer:
        """Say where the message is; a client of 5.x also reads its own id of the message there."""
        ext = {"msgId": message_id, "queueId": str(queue_id), "queueOffset": str(first.queue_offset)}
        unique_id = properties.get(names.UNIQ_KEY)
        if unique_id and request.command.version >= VERSION_5:
            ext["transactionId"] = unique_id
        return Answer(ext=ext | self.common_ext)

    def _confirm(self, end: int, answer: Answer, properties: dict[str, str]) -> Sent:
        return self._durability.acknowledge(end, answer, waits=_waits(properties))


def _topics_of(topic: str) -> tuple[str, ...]:
    """Return where a message to a topic may go: one that was retried too often becomes a dead letter."""
    if not topic.startswith(topic_names.RETRY_PREFIX):
        return (topic,)
    return topic, topic_names.dead_letter_topic(topic.removeprefix(topic_names.RETRY_PREFIX))


def _sys_flag(sys_flag: int, config: TopicConfig) -> int:
    return sys_flag | SysFlag.MULTI_TAGS if config.topic_filter_type == MULTI_TAG else sys_flag


def _waits(properties: dict[str, str]) -> bool:
    return properties.get(names.WAIT, "true").lower() == "true"


def _stored_text(properties: dict[str, str]) -> str:
    """Return the property string as RocketMQ stores it: in Java's order, without WAIT.

    WAIT is left out after the order is found, for it takes part in the growth of Java's map.
    """
    return names.PROPERTY_SEPARATOR.join(
        [
            f"{name}{names.NAME_VALUE_SEPARATOR}{properties[name]}"
            for name in java_map_order(tuple(properties))
            if name != names.WAIT
        ]
    )
