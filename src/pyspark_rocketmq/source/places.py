"""Places in topics as options and checkpoints write them.

{"orders": [0, 1]}                          assign: these queues of each broker
{"orders": {"broker-a": [0, 1]}}            assign: these of one broker
{"orders": {"0": 23, "1": -1}}              offsets: of each broker; -2 is the first, -1 behind the last
{"orders": {"broker-a": {"0": 23}}}         offsets: of one broker
{"v": 1, "q": {"orders/broker-a/0": 23}}    offsets, as a checkpoint has them
{"orders": {"0": 1762300800000}}            times, in the same two forms
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pyromq.errors import ConfigError
from pyromq.model import MessageQueue

EARLIEST: Final = -2
LATEST: Final = -1

#: A queue as an option names it: topic, broker or None for each, number.
Named = tuple[str, str | None, int]


@dataclass(frozen=True, slots=True)
class QueueChoice:
    """Queues that an option names."""

    named: tuple[Named, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """Their topics, each once."""
        return tuple(dict.fromkeys(topic for topic, _, _ in self.named))

    def has(self, queue: MessageQueue) -> bool:
        """Return whether a queue is among them."""
        return any(
            (queue.topic, broker, queue.queue_id) in self.named for broker in (queue.broker_name, None)
        )


@dataclass(frozen=True, slots=True)
class Offsets:
    """Offsets by queue, given by `option`."""

    option: str
    named: tuple[tuple[Named, int], ...]

    def get(self, queue: MessageQueue) -> int | None:
        """Return a queue's, or None."""
        return _find(dict(self.named), queue)


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds since 1970 by queue, or one for all, given by `option`."""

    option: str
    at_ms: int | None = None
    named: tuple[tuple[Named, int], ...] = ()

    def get(self, queue: MessageQueue) -> int | None:
        """Return a queue's, or None."""
        return self.at_ms if self.at_ms is not None else _find(dict(self.named), queue)


def _find(named: Mapping[Named, int], queue: MessageQueue) -> int | None:
    own = named.get((queue.topic, queue.broker_name, queue.queue_id))
    return own if own is not None else named.get((queue.topic, None, queue.queue_id))


def key_of(queue: MessageQueue) -> str:
    """Return a queue's name in a checkpoint."""
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"


def queue_of(key: str) -> MessageQueue:
    """Return the queue of that name; a topic's name has no slash."""
    topic, _, rest = key.partition("/")
    broker, _, queue_id = rest.rpartition("/")
    if not topic or not broker or not queue_id.isdecimal():
        raise ConfigError(f"{key!r} is no queue; one looks like 'orders/broker-a/0'")
    return MessageQueue(topic, broker, int(queue_id))


def read_assigned(option: str, value: str) -> QueueChoice:
    """Return the queues that an option names."""
    example = '{"orders": [0, 1]} or {"orders": {"broker-a": [0, 1]}}'
    named: list[Named] = []
    for topic, queues in _read_object(option, value, example).items():
        by_broker = queues.items() if isinstance(queues, dict) else ((None, queues),)
        for broker, ids in by_broker:
            if not isinstance(ids, list) or not all(type(one) is int and one >= 0 for one in ids):
                raise ConfigError(f"{option}: the queues of {topic!r} are {ids!r}; it looks like {example}")
            named += ((topic, broker, one) for one in ids)
    if not named:
        raise ConfigError(f"{option} names no queue; it looks like {example}")
    return QueueChoice(tuple(named))


def read_offsets(option: str, value: str) -> Offsets:
    """Return the offsets that an option names."""
    example = '{"orders": {"0": 23, "1": -2}} or {"orders": {"broker-a": {"0": 23}}}'
    table = _read_object(option, value, example)
    if "q" in table and "v" in table:
        table = _by_topic(option, table["q"], example)
    named = _read_table(option, table, example)
    for (topic, _, queue_id), offset in named.items():
        if offset < EARLIEST:
            raise ConfigError(
                f"{option}: queue {queue_id} of {topic!r} is {offset}; offsets begin at 0, -2 is the first "
                "message there is, -1 is behind the last"
            )
    return Offsets(option, tuple(named.items()))


def read_times(option: str, value: str) -> Times:
    """Return the time of an option: ISO-8601, milliseconds since 1970, or JSON of either by queue."""
    if not value.lstrip().startswith("{"):
        return Times(option, at_ms=_read_time(option, value))
    example = '{"orders": {"0": 1762300800000}} or {"orders": {"broker-a": {"0": 1762300800000}}}'
    return Times(
        option, named=tuple(_read_table(option, _read_object(option, value, example), example).items())
    )


def _read_time(option: str, value: str) -> int:
    if value.isdecimal():
        return int(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ConfigError(
            f"{option} is {value!r}; it is a time like '2026-11-01T00:00:00Z', or milliseconds since 1970"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000)


def _read_object(option: str, value: str, example: str) -> dict[str, Any]:
    try:
        table = json.loads(value)
    except ValueError as error:
        raise ConfigError(
            f"{option} is {value!r}, which is no JSON: {error}; it looks like {example}"
        ) from None
    if not isinstance(table, dict):
        raise ConfigError(f"{option} is {value!r}; it looks like {example}")
    return table


def _by_topic(option: str, queues: Any, example: str) -> dict[str, Any]:
    table: dict[str, Any] = {}
    if not isinstance(queues, dict):
        raise ConfigError(f"{option}: `q` is {queues!r}; it looks like {example}")
    for key, offset in queues.items():
        queue = queue_of(key)
        table.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offset
    return table


def _read_table(option: str, table: Mapping[str, Any], example: str) -> dict[Named, int]:
    named: dict[Named, int] = {}
    for topic, inner in table.items():
        if not isinstance(inner, dict):
            raise ConfigError(f"{option}: {topic!r} has {inner!r}; it looks like {example}")
        for name, value in inner.items():
            by_queue = value.items() if isinstance(value, dict) else ((name, value),)
            broker = name if isinstance(value, dict) else None
            for queue_id, number in by_queue:
                if not str(queue_id).isdecimal() or type(number) is not int:
                    raise ConfigError(
                        f"{option}: {topic!r} has {queue_id!r}: {number!r}; it looks like {example}"
                    )
                named[topic, broker, int(queue_id)] = number
    if not named:
        raise ConfigError(f"{option} names no queue; it looks like {example}")
    return named
