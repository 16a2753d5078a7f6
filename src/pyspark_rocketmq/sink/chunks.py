"""Rows gathered by the queue that they go to, and handed on about a mebibyte at a time.

A row with a `queue_id` goes to that queue; one with a `message_group` to the queue of its group, the one that
Java's clients choose, so that a group stays in order. All others go where there is room, a chunk to the next
queue in turn.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyromq.client.names import check_sendable_topic
from pyromq.codes import ResponseCode
from pyromq.errors import MessageIllegal
from pyromq.model import MessageQueue
from pyspark_rocketmq.sink.rows import Rows
from pyspark_rocketmq.sink.units import Encoder, group_queues

#: What is handed on at once; the limit of a broker is four times as much.
CHUNK_BYTES: Final = 1 << 20
#: What a part may gather for all queues together.
HELD_BYTES_MAX: Final = 64 << 20

Places: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int32]]
#: Takes a batch: its queue, its bytes, and how many messages they are.
Put: TypeAlias = Callable[[MessageQueue, bytes, int], None]

_ANY: Final = -1


@dataclass(slots=True)
class _Held:
    """The rows gathered for one queue."""

    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    count: int = 0


class Chunks:
    """Gathers encoded rows, and hands each chunk on when it is full.

    `queues_of` says which queues a topic has, and `turn` at which of them to begin.
    """

    def __init__(self, queues_of: Callable[[str], list[MessageQueue]], put: Put, *, turn: int) -> None:
        self._queues_of = queues_of
        self._put = put
        self._turn = turn
        self._queues: dict[str, list[MessageQueue]] = {}
        self._turns: dict[str, int] = {}
        self._held: defaultdict[MessageQueue, _Held] = defaultdict(_Held)
        self._held_bytes = 0

    def add(self, encoder: Encoder, topic: str, places: Places | None) -> None:
        """Take rows of one topic, those at these places or all."""
        queues = self._queues_for(topic)
        for number, chosen in by_queue(encoder.rows, places, topic, queues):
            if number == _ANY:
                self._add_anywhere(encoder, topic, chosen)
            else:
                self._add(encoder, queues[number], chosen)

    def add_alone(self, encoder: Encoder, topic: str, places: Places) -> None:
        """Hand on rows of one topic one by one, at once."""
        queues = self._queues_for(topic)
        for number, chosen in by_queue(encoder.rows, places, topic, queues):
            for row in range(encoder.rows.count) if chosen is None else chosen.tolist():
                queue = queues[row % len(queues) if number == _ANY else number]
                self._put(queue, encoder.encode_row(row), 1)

    def flush(self) -> None:
        """Hand on what is left."""
        for queue in sorted(self._held):
            self._hand_on(queue)

    def _queues_for(self, topic: str) -> list[MessageQueue]:
        queues = self._queues.get(topic)
        if queues is None:
            queues = self._queues[topic] = self._queues_of(topic)
            self._turns[topic] = self._turn % max(len(queues), 1)
        return queues

    def _add_anywhere(self, encoder: Encoder, topic: str, places: Places | None) -> None:
        at, stop = 0, encoder.rows.count if places is None else len(places)
        while at < stop:
            queue = self._queues[topic][self._turns[topic]]
            at = self._add_some(encoder, queue, places, at, stop)
            if queue not in self._held:
                self._turns[topic] = (self._turns[topic] + 1) % len(self._queues[topic])

    def _add(self, encoder: Encoder, queue: MessageQueue, places: Places | None) -> None:
        at, stop = 0, encoder.rows.count if places is None else len(places)
        while at < stop:
            at = self._add_some(encoder, queue, places, at, stop)

    def _add_some(
        self, encoder: Encoder, queue: MessageQueue, places: Places | None, at: int, stop: int
    ) -> int:
        """Add rows until a chunk is full, which is handed on; return the place of the next."""
        held = self._held[queue]
        units, end = encoder.encode(places, at, stop, CHUNK_BYTES - held.size)
        if end == at and not held.count:
            # One row is larger than a chunk.
            units, end = encoder.encode_row(at if places is None else int(places[at])), at + 1
        if units:
            held.pieces.append(units)
            held.size += len(units)
            held.count += end - at
            self._held_bytes += len(units)
        if end < stop or held.size >= CHUNK_BYTES:
            self._hand_on(queue)
        elif self._held_bytes > HELD_BYTES_MAX:
            self._hand_on(max(self._held, key=lambda queue: self._held[queue].size))
        return end

    def _hand_on(self, queue: MessageQueue) -> None:
        held = self._held.pop(queue)
        if held.count:
            self._held_bytes -= held.size
            self._put(queue, b"".join(held.pieces), held.count)


# Which rows go where


def by_topic(rows: Rows) -> Iterator[tuple[str, Places]]:
    """Return the topics of the column, each with its rows; raise MessageIllegal for a row without one."""
    assert rows.topic is not None, "a schema without topics is refused before"
    if rows.topic.null_count:
        row = int(np.flatnonzero(_numbers(pc.is_null(rows.topic)))[0])
        raise _illegal(
            f"row {row} of an Arrow batch has no topic: fill the column, or set .option('topic', …)"
        )
    encoded = pc.dictionary_encode(rows.topic)
    numbers = _numbers(encoded.indices)
    for number, name in enumerate(encoded.dictionary.to_pylist()):
        topic = name.decode("utf-8", "replace")
        check_sendable_topic(topic)
        yield topic, np.flatnonzero(numbers == number).astype(np.int32)


def delayed(rows: Rows) -> Places:
    """Return which rows are delivered later."""
    found = np.zeros(rows.count, np.bool_)
    for array in (rows.deliver_at, rows.delay_ms, rows.delay_level):
        if array is not None:
            is_set = pc.fill_null(pc.not_equal(array, 0), False)  # noqa: FBT003  Arrow's name for the value
            found |= _numbers(is_set) != 0
    return np.flatnonzero(found).astype(np.int32)


def by_queue(
    rows: Rows, places: Places | None, topic: str, queues: list[MessageQueue]
) -> Iterator[tuple[int, Places | None]]:
    """Return numbers of queues, each with the rows that belong there; -1 with those that may go anywhere.

    Without queues there is nothing to be written: the batch was decided meanwhile.
    """
    if not queues:
        return
    if rows.queue_id is None and rows.message_group is None:
        yield _ANY, places
        return
    chosen = np.full(rows.count, _ANY, np.int32)
    if rows.message_group is not None:
        chosen = group_queues(rows.message_group, len(queues)).copy()
    if rows.queue_id is not None:
        _choose_by_id(chosen, rows.queue_id, places, topic, queues)
    if places is not None:
        chosen = chosen[places]
    order = np.argsort(chosen, kind="stable").astype(np.int32)
    numbers, starts = np.unique(chosen[order], return_index=True)
    for number, part in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        yield number, part if places is None else places[part]


def _choose_by_id(
    chosen: Places, queue_id: pa.Int64Array, places: Places | None, topic: str, queues: list[MessageQueue]
) -> None:
    """Note the queue of each row that names one; several brokers may have one of that number."""
    ids = _numbers(pc.fill_null(queue_id, _ANY))
    for one in np.unique(ids if places is None else ids[places]).tolist():
        if one == _ANY:
            continue
        numbers = [number for number, queue in enumerate(queues) if queue.queue_id == one]
        if not numbers:
            most = max(queue.queue_id for queue in queues)
            raise _illegal(
                f"queue_id is {one}, and topic {topic} has queues 0 to {most}; leave queue_id null to let "
                "the sink choose"
            )
        chosen[ids == one] = numbers[one % len(numbers)]


def _numbers(array: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # pyarrow has no types


def _illegal(text: str) -> MessageIllegal:
    return MessageIllegal(ResponseCode.MESSAGE_ILLEGAL, text)
