"""Dead letters: what a group gave up, which of them are meant, and what becomes of one that is replayed.

A dead letter is a message of the topic `%DLQ%group`. Replayed, it is stored once more by the broker that has
the dead letter: in `%RETRY%group`, where only its own group sees it, or in its first topic, where every group
does.

    dead letter   UNIQ_KEY=u  RETRY_TOPIC=orders  ORIGIN_MESSAGE_ID=o            reconsumeTimes 17
    replayed      UNIQ_KEY=u  RETRY_TOPIC=orders  ORIGIN_MESSAGE_ID=o            reconsumeTimes 0
                  REPLAYED_FROM=<the dead letter's place in the log>

REPLAYED_FROM is what keeps a dead letter from being replayed twice. It is looked for by the key u before each
replay, and it is part of the replayed message, so no crash can come between the two. The log keeps the copy
as long as the dead letter, which lies before it. A message that dies again carries the places of its earlier
dead letters along, the newest last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.namespaces import DEAD_LETTER_TOPIC_PREFIX, unwrap
from pyromq.errors import ConfigError, PyroError
from pyromq.filter.tags import parse_tags
from pyromq.model import MessageQueue, ReceivedMessage
from pyromq.wire import properties as names

#: The property of a replayed message that names the dead letters it comes from, the newest last.
REPLAYED_FROM: Final = "REPLAYED_FROM"
#: Brokers of 5.x write a dead letter's first topic here too, and there alone for groups that consume by pop.
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
#: So many of them are kept; nobody replays a message this often without mending what it fails at.
REPLAYS_NAMED_MAX: Final = 20

#: What was true of the message where it died, and would divert it, delay it or hide it where it goes.
_LEFT_BEHIND: Final = frozenset(
    {
        names.CONSUME_START_TIME,
        names.DELAY,
        names.REAL_TOPIC,
        names.REAL_QUEUE_ID,
        names.TRANSACTION_PREPARED,
        names.RECONSUME_TIME,
        names.MAX_RECONSUME_TIMES,
        names.START_DELIVER_TIME,
        names.POP_CK,
        names.FIRST_POP_TIME,
        names.TIMER_DELAY_SEC,
        names.TIMER_DELAY_MS,
        names.TIMER_DELIVER_MS,
        names.TIMER_OUT_MS,
        names.TIMER_ENQUEUE_MS,
        names.TIMER_DEQUEUE_MS,
        names.TIMER_ROLL_TIMES,
        "TIMER_DELAY_LEVEL",
    }
)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that a group gave up. `topic` is where it was first sent, where that is known."""

    group: str
    message: ReceivedMessage
    topic: str | None

    @property
    def place_id(self) -> str:
        """The id of this dead letter: a message that died twice has two, and one `message_id`."""
        return self.message.offset_message_id

    @property
    def message_id(self) -> str:
        """The id that its producer gave the message, the same in all its copies."""
        return self.message.message_id

    @property
    def first_id(self) -> str | None:
        """The id of the message's first copy, in its first topic."""
        return self.message.properties.get(names.ORIGIN_MESSAGE_ID)

    @property
    def died_at_ms(self) -> int:
        """The time at which the group gave it up, in milliseconds since 1970."""
        return self.message.stored_at_ms

    @property
    def tries(self) -> int:
        """The number of times that it was given to a consumer."""
        return self.message.reconsume_times

    @property
    def replayed_from(self) -> list[str]:
        """The earlier dead letters that this one is a replay of, the newest last."""
        return self.message.properties.get(REPLAYED_FROM, "").split()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """A filter for dead letters: those of which all is true that is given.

    `tag` may be several, `a || b`; `message_id` is any of the message's ids; times are in milliseconds since
    1970, `until_ms` is the first that is no longer meant; `limit` is how many at most, the oldest first.
    """

    key: str | None = None
    tag: str | None = None
    topic: str | None = None
    message_id: str | None = None
    since_ms: int = 0
    until_ms: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"a limit is at least one dead letter, not {self.limit}")

    def wants(self, letter: DeadLetter) -> bool:
        """Return whether a dead letter is meant, whatever the times and the limit."""
        return (
            (self.key is None or self.key in letter.message.keys)
            and (self.tag is None or self._has_tag(letter))
            and (self.topic is None or self.topic == letter.topic)
            and (
                self.message_id is None
                or self.message_id in (letter.message_id, letter.place_id, letter.first_id)
            )
        )

    def _has_tag(self, letter: DeadLetter) -> bool:
        tags = parse_tags(self.tag or "*")
        return not tags or letter.message.tags in tags


ALL_DEAD_LETTERS: Final = DeadLetterFilter()


@dataclass(frozen=True, slots=True)
class DeadLetterCount:
    """The number of a group's dead letters, and when the oldest died; None when there is none."""

    group: str
    count: int
    oldest_at_ms: int | None


class ReplayTo(StrEnum):
    """The receiver of a replayed message: the group that gave it up, or every group of its first topic."""

    GROUP = "group"
    TOPIC = "topic"


class ReplayOutcome(StrEnum):
    """The outcome of a replay. A skipped dead letter was replayed before."""

    REPLAYED = "replayed"
    WOULD_REPLAY = "would-replay"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The result of replaying one dead letter.

    `queue`, `queue_offset` and `offset_message_id` say where the replayed message is: the new one, or for a
    skipped dead letter the one of an earlier replay. `error` is why it failed.
    """

    letter: DeadLetter
    outcome: ReplayOutcome
    destination: str
    queue: MessageQueue | None = None
    queue_offset: int | None = None
    offset_message_id: str | None = None
    stored_at_ms: int | None = None
    error: PyroError | None = None


def dead_letter_of(group: str, message: ReceivedMessage, namespace: str) -> DeadLetter:
    """Return a message of a dead-letter topic as what it is."""
    for name in (names.MIN_OFFSET, names.MAX_OFFSET):
        # The pull wrote them there.
        message.properties.pop(name, None)
    topic = _first_topic(message)
    return DeadLetter(group, message, None if topic is None else unwrap(namespace, topic))


def dead_letter_topic(group: str) -> str:
    """Return the topic of a group's dead letters."""
    return DEAD_LETTER_TOPIC_PREFIX + group


def retry_topic(group: str) -> str:
    """Return the topic that only one group reads."""
    return RETRY_TOPIC_PREFIX + group


def lookup_key(letter: DeadLetter) -> str:
    """Return the key by which the copies of a message are found; one without an id gets its place for one."""
    return letter.message.properties.get(names.UNIQ_KEY, letter.place_id)


def replayed_properties(letter: DeadLetter, to: ReplayTo) -> dict[str, str]:
    """Return the properties of the message that a dead letter becomes again."""
    pairs = {name: value for name, value in letter.message.properties.items() if name not in _LEFT_BEHIND}
    topic = _first_topic(letter.message)
    if to is ReplayTo.TOPIC:
        pairs.pop(names.RETRY_TOPIC, None)
    elif topic is not None:
        # A consumer shows its listener this topic in place of the retry topic.
        pairs[names.RETRY_TOPIC] = topic
    pairs[names.UNIQ_KEY] = lookup_key(letter)
    pairs[names.WAIT] = "true"
    pairs[REPLAYED_FROM] = " ".join([*letter.replayed_from, letter.place_id][-REPLAYS_NAMED_MAX:])
    return pairs


def replay_of(letter: DeadLetter, copies: Sequence[ReceivedMessage]) -> ReceivedMessage | None:
    """Return the first of a message's copies that is this dead letter replayed, or comes from such a one."""
    found = [copy for copy in copies if letter.place_id in copy.properties.get(REPLAYED_FROM, "").split()]
    return min(found, key=lambda copy: copy.stored_at_ms, default=None)


def _first_topic(message: ReceivedMessage) -> str | None:
    return message.properties.get(names.RETRY_TOPIC) or message.properties.get(DLQ_ORIGIN_TOPIC)
