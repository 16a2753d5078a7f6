"""The nouns that all parts share: messages, queues, and what came of a send or a pull.

RocketMQ says "offset" for three things. Here a *position* counts bytes in the commit log, a *queue offset*
counts messages in one queue, and *progress* is the queue offset that a group reads next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyromq.kernel import IS_COMPILED

_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """One queue of a topic on one broker."""

    topic: str
    broker_name: str
    queue_id: int


@dataclass(slots=True)
class Message:
    """A message, as a producer sends it.

    `tags` is the second-level class that consumers filter by; `keys` are the words that it can be found by
    later. `properties` are the application's own.

    It is delivered at once, or later by one of three: `delay_level` is 1 to 18, which all brokers know;
    `delay` is any time from now, seconds or a timedelta; `deliver_at` is a moment, a datetime with its time
    zone or milliseconds since 1970.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: Sequence[str] | str = ()
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    delay_level: int = 0
    wait_stored: bool = True
    delay: timedelta | float | None = None
    deliver_at: datetime | int | None = None

    @property
    def is_delayed(self) -> bool:
        """Whether it is to be delivered later."""
        return self.delay_level > 0 or self.delay is not None or self.deliver_at is not None

    @property
    def key_list(self) -> list[str]:
        """The keys one by one; a string is split at its spaces, as RocketMQ does."""
        return self.keys.split() if isinstance(self.keys, str) else list(self.keys)

    @property
    def message_id(self) -> str | None:
        """The unique id, where it has one before it is sent: in a transaction, or when it is sent again."""
        return self.properties.get("UNIQ_KEY")


@dataclass(slots=True)
class ReceivedMessage:
    """A message as a consumer or an admin tool gets it; the body is decompressed."""

    topic: str
    body: bytes
    queue: MessageQueue
    queue_offset: int
    position: int
    message_id: str
    offset_message_id: str
    properties: dict[str, str]
    flag: int
    sys_flag: int
    born_at_ms: int
    born_host: str
    stored_at_ms: int
    store_host: str
    reconsume_times: int
    prepared_position: int
    body_crc: int
    size: int

    @property
    def tags(self) -> str | None:
        """The tag, if it has one; a message has at most one, whatever RocketMQ's name for it says."""
        return self.properties.get("TAGS")

    @property
    def keys(self) -> list[str]:
        """The keys one by one."""
        return self.properties.get("KEYS", "").split()


PureReceivedMessage = ReceivedMessage
if not TYPE_CHECKING and IS_COMPILED:
    from pyromq._kernel.client.records import ReceivedMessage


def restore_received(*values: Any) -> ReceivedMessage:
    """Make a message that was pickled, with a kernel or without one, of its fields."""
    return ReceivedMessage(*values)


class SendStatus(StrEnum):
    """The durability of a stored message. All four are a success: the message has a place in its queue."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


@dataclass(frozen=True, slots=True)
class SendResult:
    """The place of a sent message. A batch has its ids joined by commas, as RocketMQ joins them."""

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    #: What takes the message back while it waits for its time, by `Producer.recall`; without a time, None.
    recall_handle: str | None = None
    #: Which region the broker says it is in, and whether it wants traces.
    region_id: str = "DefaultRegion"
    is_trace_on: bool = True


class CommunicationMode(StrEnum):
    """The way an application sends: it waits for the result, gets it later, or wants none."""

    SYNC = "SYNC"
    ASYNC = "ASYNC"
    ONEWAY = "ONEWAY"


class TransactionState(StrEnum):
    """The end of a local transaction; the texts are RocketMQ's. The broker asks about an unknown one."""

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"


@dataclass(frozen=True, slots=True)
class TransactionResult(SendResult):
    """The place of a half message, and the end of the local transaction.

    `error` is what the local execution raised; the state is then UNKNOWN, and the broker asks.
    """

    state: TransactionState = TransactionState.UNKNOWN
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that waits for its time; its topic and queue are those that it will be delivered to."""

    due_ms: int
    message: ReceivedMessage
    #: None for a message without a unique id, which cannot be named.
    recall_handle: str | None


class PullStatus(StrEnum):
    """The status of a pull."""

    FOUND = "FOUND"
    NO_NEW_MESSAGE = "NO_NEW_MESSAGE"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


@dataclass(frozen=True, slots=True)
class PullResult:
    """The messages that a pull found, and the offset of the next one."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[ReceivedMessage]
    suggested_broker_id: int = 0


class TopicType(StrEnum):
    """The type of a topic: which messages it takes from clients that speak gRPC. The texts are RocketMQ's.

    MIXED takes all of them. What RocketMQ's other clients send is not looked at.
    """

    UNSPECIFIED = "UNSPECIFIED"
    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    MIXED = "MIXED"
    PRIORITY = "PRIORITY"
    LITE = "LITE"


class ConsumeFrom(IntEnum):
    """The start offset of a new group; the numbers are RocketMQ's ordinals."""

    LAST_OFFSET = 0
    FIRST_OFFSET = 4
    TIMESTAMP = 5
