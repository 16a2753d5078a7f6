"""A message's properties: the string that carries them, and the names that RocketMQ keeps for itself.

    name \\x01 value \\x02 name \\x01 value ...

4.9 writes no \\x02 behind the last pair, 5.x and the C++ client write one; both read. A pair with an empty
name or an empty value is not one. Pairs are written in the order of a `java.util.HashMap`.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import AnyStr, Final

from pyromq.wire.java_hash import java_map_order

NAME_VALUE_SEPARATOR: Final = "\x01"
PROPERTY_SEPARATOR: Final = "\x02"

KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
RETRY_TOPIC: Final = "RETRY_TOPIC"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
TRANSACTION_PREPARED: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
BUYER_ID: Final = "BUYER_ID"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
TRANSFER_FLAG: Final = "TRANSFER_FLAG"
CORRECTION_FLAG: Final = "CORRECTION_FLAG"
MQ2_FLAG: Final = "MQ2_FLAG"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
UNIQ_KEY: Final = "UNIQ_KEY"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
TRANSACTION_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_TIME_IN_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
TRANSACTION_ID: Final = "__transactionId__"
START_DELIVER_TIME: Final = "__STARTDELIVERTIME"
SHARDING_KEY: Final = "__SHARDINGKEY"
INSTANCE_ID: Final = "INSTANCE_ID"
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
ARRIVE_TIME: Final = "ARRIVE_TIME"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
CLUSTER: Final = "CLUSTER"
MSG_TYPE: Final = "MSG_TYPE"
POP_CK: Final = "POP_CK"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
#: What RocketMQ 5's gRPC clients say, and its server writes.
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
LITE_TOPIC: Final = "__LITE_TOPIC"
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"

#: All of the above: the names that are RocketMQ's. Others are the application's own.
RESERVED: Final = frozenset(
    value for constant, value in tuple(globals().items()) if constant.isupper() and isinstance(value, str)
)

#: Words in KEYS are separated by this.
KEY_SEPARATOR: Final = " "


def decode(text: str) -> dict[str, str]:
    """Return the pairs; of two with one name the later holds."""
    pairs: dict[str, str] = {}
    for part in text.split(PROPERTY_SEPARATOR):
        name, _, value = part.partition(NAME_VALUE_SEPARATOR)
        if name and value:
            pairs[name] = value
    return pairs


def joined(first: str, second: str) -> str:
    """Return one string of the pairs of two, in their order."""
    if not first or first.endswith(PROPERTY_SEPARATOR):
        return first + second
    return f"{first}{PROPERTY_SEPARATOR}{second}"


def encode(properties: Mapping[str, str]) -> str:
    """Return the string of the pairs, in Java's order and without a trailing separator, as 4.9 writes it."""
    return PROPERTY_SEPARATOR.join(
        [f"{name}{NAME_VALUE_SEPARATOR}{properties[name]}" for name in java_map_order(tuple(properties))]
    )


def finder(name: AnyStr) -> Callable[[AnyStr], AnyStr | None]:
    """Return a function that finds one property's value in a string of pairs, without decoding the others.

    With a name as bytes it finds the value in the bytes of the string.
    """
    name_end, pair_end = (
        (NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR) if isinstance(name, str) else (b"\x01", b"\x02")
    )
    head: AnyStr = name + name_end
    marked: AnyStr = pair_end + head

    marked_length, head_length = len(marked), len(head)

    def find(text: AnyStr) -> AnyStr | None:
        # From behind, since of two pairs with one name the later holds.
        at = text.rfind(marked)
        while at >= 0:
            start = at + marked_length
            end = text.find(pair_end, start)
            value = text[start:end] if end >= 0 else text[start:]
            if value:
                return value
            # An empty pair counts for nothing, so one before it may hold.
            at = text.rfind(marked, 0, at)
        if not text.startswith(head):
            return None
        end = text.find(pair_end)
        return (text[head_length:end] if end >= 0 else text[head_length:]) or None

    return find


@lru_cache(maxsize=256)
def _finder_of(name: str) -> Callable[[str], str | None]:
    return finder(name)


def find_text(text: str, name: str) -> str | None:
    """Return one property's value, or None, without decoding the others."""
    return _finder_of(name)(text)


def index_keys(unique_id: str | None, keys: str | None) -> list[str]:
    """Return the keys by which a message is found: its unique id (UNIQ_KEY), and each word of its KEYS."""
    words = [key for key in keys.split(KEY_SEPARATOR) if key] if keys else []
    return [unique_id, *words] if unique_id else words
