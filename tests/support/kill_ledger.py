"""What a broker was sent, what it acknowledged, and what it was seen to have: the memory of a kill test.

Every message carries a number that no other has, so a message that is lost, repeated, moved to another offset
or made up is told from all others.
"""

import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from pyromq.wire.record import Record

#: Topic and queue id.
Queue = tuple[str, int]
#: Group, topic and queue id.
Reader = tuple[str, str, int]
NUMBER_DIGITS = 12


@dataclass
class Ledger:
    """All of a run; numbers of messages stand for the messages."""

    chance: Random
    sent: dict[int, int] = field(default_factory=dict)
    acknowledged: dict[Queue, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    #: Behind the last acknowledged message of each queue.
    ends: dict[Queue, int] = field(default_factory=lambda: defaultdict(int))
    #: What the broker was seen to have, by offset; None where retention took it before it was seen.
    seen: dict[Queue, list[int | None]] = field(default_factory=lambda: defaultdict(list))
    seen_numbers: set[int] = field(default_factory=set)
    #: Queues that got a message, or may have got one, since they were last read.
    touched: set[Queue] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    key_values: set[str] = field(default_factory=set)
    committed: dict[Reader, int] = field(default_factory=lambda: defaultdict(int))
    #: Commits that were seen in the file, or after a restart: they are on disk.
    saved: dict[Reader, int] = field(default_factory=lambda: defaultdict(int))
    #: Where each queue began when it was last asked.
    low: dict[Queue, int] = field(default_factory=lambda: defaultdict(int))
    complaints: list[str] = field(default_factory=list)
    #: Whether old messages go during the run.
    has_retention: bool = False

    def new_body(self, size: int) -> tuple[int, bytes]:
        """Return a message that nobody sent before: its number, and the body that begins with it."""
        number = len(self.sent)
        body = b"%0*d" % (NUMBER_DIGITS, number) + self.chance.randbytes(size)
        self.sent[number] = zlib.crc32(body)
        return number, body

    def acknowledge(self, queue: Queue, first_offset: int, numbers: list[int]) -> None:
        """Note that the broker said where messages are."""
        for offset, number in enumerate(numbers, first_offset):
            self.ends[queue] = max(self.ends[queue], offset + 1)
            other = self.acknowledged[queue].setdefault(offset, number)
            if other != number:
                self.complain(f"{queue} offset {offset} was given to message {other} and to {number}")

    def end_of(self, queue: Queue) -> int:
        """Return the offset behind the last message of a queue that was acknowledged."""
        return self.ends[queue]

    @property
    def acknowledged_count(self) -> int:
        """How many messages were acknowledged so far."""
        return sum(map(len, self.acknowledged.values()))

    def see(self, queue: Queue, record: Record) -> None:
        """Note a message that the broker has, and compare it with what was sent and seen before."""
        number, seen = int(record.body[:NUMBER_DIGITS]), self.seen[queue]
        offset = record.queue_offset
        if (record.topic, record.queue_id) != queue or offset > len(seen):
            self.complain(f"{queue} has {record.topic} {record.queue_id} {offset} behind {len(seen)}")
        elif self.sent.get(number) != zlib.crc32(record.body):
            self.complain(f"{queue} offset {offset}: message {number} is not what was sent")
        elif offset == len(seen):
            if number in self.seen_numbers:
                self.complain(f"{queue} offset {offset}: message {number} is there twice")
            seen.append(number)
            self.seen_numbers.add(number)
        elif seen[offset] is None:
            seen[offset] = number
            self.seen_numbers.add(number)
        elif seen[offset] != number:
            self.complain(f"{queue} offset {offset} was message {seen[offset]} and is {number} now")
        acknowledged = self.acknowledged[queue].get(offset, number)
        if acknowledged != number:
            self.complain(f"{queue} offset {offset} is {number}, but {acknowledged} was acknowledged there")

    def check_start(self, queue: Queue, low: int) -> None:
        """Note where a queue begins now; what nobody saw before it is unknown until it is seen.

        With retention it may begin earlier than before the kill: a file that was let go, and not yet removed
        when the kill came, is there again.
        """
        if low and not self.has_retention:
            self.complain(f"{queue} begins at {low}; it began at {self.low[queue]}")
        self.low[queue] = low
        self.seen[queue] += [None] * (low - len(self.seen[queue]))

    def check_end(self, queue: Queue, end: int) -> None:
        """Compare a queue's end with what was acknowledged and seen."""
        wanted = self.end_of(queue)
        if end < max(wanted, len(self.seen[queue])):
            self.complain(f"{queue} ends at {end}; {wanted} was acknowledged, {len(self.seen[queue])} seen")

    def check_progress(self, table: Mapping[str, Mapping[int, int]], *, where: str) -> None:
        """Compare the groups' progress with what was committed, and with what was on disk before."""
        for reader, highest in self.committed.items():
            group, topic, queue_id = reader
            offset = table.get(f"{topic}@{group}", {}).get(queue_id, 0)
            if not self.saved[reader] <= offset <= highest:
                self.complain(f"{where}: {reader} is at {offset}, not {self.saved[reader]} … {highest}")
            self.saved[reader] = offset

    def complain(self, text: str) -> None:
        """Note a broken promise."""
        self.complaints.append(text)
