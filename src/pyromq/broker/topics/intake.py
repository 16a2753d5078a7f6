"""The intake of messages into the store: from producers, retries, transactions and the broker itself.

`Admission` decides first whether a message to this topic may be stored at all, by the broker's settings and
the topic. The checks, their order, codes and remarks are RocketMQ's (AbstractSendMessageProcessor.msgCheck).

`Intake` then stores it. Messages of some kinds wait elsewhere first: a delayed message in the schedule topic,
a half message in the half topic. A property marks such a kind. A *diversion* for that property changes the
draft's topic and queue, and notes the real ones in the properties.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyromq.broker.topics import topic_names
from pyromq.broker.topics.topics import TopicTable, unit_flag
from pyromq.clock import Clock
from pyromq.codes import Perm, ResponseCode
from pyromq.config.settings import BrokerSettings
from pyromq.errors import (
    CorruptRecord,
    DiskFull,
    MessageIllegal,
    MessageTooLarge,
    NoPermission,
    Refused,
    ServerFailed,
    ServiceNotAvailable,
    StoreError,
    TopicNotFound,
)
from pyromq.store.store import Draft, MessageStore, Placed
from pyromq.wire import properties as names
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.headers.send_headers import SendMessage, SendMessageV2

FAQ = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
RETRY_QUEUE_COUNT = 1
#: Changes a draft, and the properties that it will be stored with, so that it waits in another topic.
#: Returns whether it did: a delay of level 0 is none.
Diversion = Callable[[Draft, dict[str, str]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainDiversion:
    """Tells what a diversion makes of messages with a plain value, so that the kernel can do the same.

    The value is `word`, or a number: of a level, where there are `delays_ms` (that of level 1 comes first;
    the queue of a level is the one before its number); of so many `unit_ms`, from now on; or a time. A
    message that is due later than `delay_ms_max`, or now, is not plain.
    """

    name: str
    topic: str
    word: str | None = None
    delays_ms: tuple[int, ...] = ()
    unit_ms: int = 0
    delay_ms_max: int = 0
    #: The property that gets the time when the message is due.
    due_name: str | None = None
    #: Properties that a plain message does not have.
    excludes: tuple[str, ...] = ()
    #: Bits that its sysFlag loses.
    cleared: int = 0
    #: Whether the answer has a handle that takes the message back.
    is_recallable: bool = False


class Admission:
    """Refuses sends that the settings or the topic forbid."""

    def __init__(self, topics: TopicTable, settings: BrokerSettings, clock: Clock, *, broker_ip: str) -> None:
        self._topics = topics
        self._settings = settings
        self._clock = clock
        self._broker_ip = broker_ip

    def check_topic(self, topic: str) -> TopicConfig | None:
        """Return the topic's configuration, None if it does not exist yet; raise Refused if it may not."""
        settings = self._settings
        start_ms = settings.start_accept_send_request_time_stamp
        if start_ms and self._clock.now_ms() < start_ms:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {readable_time(start_ms)}"
            )
        config = self._topics.configs.get(topic)
        if config is not None and config.order and not settings.broker_permission & Perm.WRITE:
            raise NoPermission(
                ResponseCode.NO_PERMISSION, f"the broker[{self._broker_ip}] sending message is forbidden"
            )
        topic_names.check_name(topic)
        topic_names.check_sendable(topic)
        return config

    def create_topic(self, header: SendMessage | SendMessageV2) -> TopicConfig:
        """Create the topic of its first send; raise TopicNotFound if topics do not come into being so.

        The caller awaits `TopicTable.save` before it answers.
        """
        topic = header.topic
        sys_flag = unit_flag(topic, is_unit=header.unit_mode)
        config = self._topics.inherit(
            topic, header.default_topic, queue_count=header.default_topic_queue_nums, sys_flag=sys_flag
        )
        if config is None and topic.startswith(topic_names.RETRY_PREFIX):
            config = self._topics.ensure(topic, queue_count=RETRY_QUEUE_COUNT, sys_flag=sys_flag)
        if config is None:
            raise TopicNotFound(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!{FAQ}"
            )
        return config


#: Tells them as the settings are now.
PlainDiversions = Callable[[], Sequence[PlainDiversion]]


class Intake:
    """Puts messages into the store; what the store refuses becomes RocketMQ's refusal.

    `diversions` are looked up by property name and applied in their order.
    """

    def __init__(
        self,
        store: MessageStore,
        *,
        message_bytes_max: int,
        diversions: Mapping[str, Diversion] | None = None,
        plain_diversions: PlainDiversions = lambda: (),
    ) -> None:
        self._store = store
        self._message_bytes_max = message_bytes_max
        self._diversions = tuple((diversions or {}).items())
        #: What the kernel may repeat of them, as the settings are now.
        self.plain_diversions = plain_diversions

    @property
    def diverting(self) -> tuple[str, ...]:
        """The names of the properties that tell a kind of message which may wait elsewhere first."""
        return tuple(name for name, _ in self._diversions)

    def put(self, draft: Draft, properties: dict[str, str]) -> Placed:
        """Store a message; `properties` are what `draft.properties` was written from.

        Raises MessageIllegal when it is too large and ServiceNotAvailable when nothing can be stored.
        """
        self.divert(draft, properties)
        return self.put_as_is(draft)

    def divert(self, draft: Draft, properties: dict[str, str]) -> None:
        """Let a draft wait where messages of its kind wait, if it has one; see `put`."""
        for name, divert in self._diversions:
            if name in properties and divert(draft, properties):
                draft.properties = names.encode(properties)

    def put_as_is(self, draft: Draft) -> Placed:
        """Store a message where its draft says, whatever kind it is: its time or its fate has come."""
        try:
            return self._store.put(draft)
        except StoreError as error:
            raise self._refusal(error) from error

    def put_together(self, drafts: Sequence[Draft]) -> list[Placed]:
        """Store messages where their drafts say, with one write; either all are stored or none.

        Only a crash in the middle of the write can leave the first without the others.
        """
        try:
            return self._store.put_batch(drafts)
        except StoreError as error:
            raise self._refusal(error) from error

    def put_batch(self, drafts: Sequence[Draft], *, request_bytes: int) -> list[Placed]:
        """Store the messages of one request, all or none; they are never diverted."""
        if not drafts or request_bytes > self._message_bytes_max:
            raise self.too_large()
        try:
            return self._store.put_batch(drafts)
        except StoreError as error:
            raise self._refusal(error) from error

    def too_large(self) -> MessageIllegal:
        """Return the refusal of a message that is over the limits."""
        return MessageIllegal(
            ResponseCode.MESSAGE_ILLEGAL,
            "the message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {self._message_bytes_max}B, msg properties length limit 32KB.",
        )

    def _refusal(self, error: StoreError) -> Refused:
        if isinstance(error, MessageTooLarge | CorruptRecord):
            return self.too_large()
        if isinstance(error, DiskFull):
            why = f"the broker's disk is full [{error}], messages are put to the slave"
        else:
            why = f"the broker's disk failed [{error}], messages are put to the slave"
        return ServiceNotAvailable(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "service not available now. It may be caused by one of the following reasons: "
            f"{why}, message store has been shut down, etc.",
        )


def check_queue(config: TopicConfig, queue_id: int, peer: str) -> None:
    """Raise ServerFailed when the topic has no such queue; a negative one leaves the choice to us."""
    if queue_id >= max(config.write_queue_nums, config.read_queue_nums):
        raise ServerFailed(
            ResponseCode.SYSTEM_ERROR,
            f"request queueId[{queue_id}] is illegal, {describe(config)} Producer: {peer}",
        )
    if queue_id < 0 and config.write_queue_nums < 1:
        raise ServerFailed(
            ResponseCode.SYSTEM_ERROR,
            f"topic {config.topic_name} has no queue to write to; raise its writeQueueNums",
        )


def describe(config: TopicConfig) -> str:
    """Return a topic's configuration as RocketMQ's remarks show it."""
    perm = "".join(
        letter if config.perm & bit else "-"
        for letter, bit in (("R", Perm.READ), ("W", Perm.WRITE), ("X", Perm.INHERIT))
    )
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm}, topicFilterType={config.topic_filter_type}, "
        f"topicSysFlag={config.topic_sys_flag}, order={'true' if config.order else 'false'}]"
    )


def readable_time(ms: int) -> str:
    """Return a time of the wall clock as RocketMQ writes it."""
    at = datetime.fromtimestamp(ms / 1000)
    return f"{at:%Y-%m-%d %H:%M:%S},{ms % 1000:03d}"
