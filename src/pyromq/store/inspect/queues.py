"""Findings about queue entries that differ from the log, and about messages without a queue entry."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pyromq.store.follower import entry_of
from pyromq.store.inspect.compare import EXTENSION_ADDRESS_MAX, RunCompared
from pyromq.store.inspect.findings import REMEDY_QUEUES
from pyromq.store.inspect.read_only_files import FileGone
from pyromq.store.inspect.store_survey import QueueName, QueueSurvey, is_blank_entry
from pyromq.store.inspect.verdict import Verdicts
from pyromq.system_names import SCHEDULE
from pyromq.wire.record import Record


class Entry(NamedTuple):
    """One entry of a queue, as it stands in its file."""

    queue: QueueSurvey
    offset: int
    position: int
    size: int
    code: int

    @property
    def place(self) -> tuple[Path, int]:
        """The file, and the byte in it."""
        return self.queue.place_of(self.offset)

    def __str__(self) -> str:
        return f"entry {self.offset} of queue {self.queue.queue_id} of {self.queue.topic!r}"


class QueueJudge:
    """Looks at all queues after the log was walked."""

    def __init__(self, verdicts: Verdicts, topics: frozenset[str] | None) -> None:
        self._verdicts = verdicts
        self._survey = verdicts.survey
        self._log = verdicts.log
        #: The topics that the broker knows; None when no table says so.
        self._topics = topics
        #: Positions of records, and entries of queues, about which something was said.
        self._told: set[int] = set(verdicts.log.distrusted)
        self._judged: set[tuple[QueueName, int]] = set()

    def judge(self, runs_by_queue: Mapping[QueueName, list[RunCompared]]) -> None:
        """Look at all queues, whose runs are given in the order of the log."""
        kept = {name: self._without_removed(name, runs) for name, runs in runs_by_queue.items()}
        for name, queue in sorted(self._survey.queues.items()):
            try:
                self._judge_entries(queue, kept.get(name, []))
            except FileGone:
                # Retention, or the topic was removed: there is nothing left to judge.
                kept.pop(name, None)
        # A record whose header is damaged was found by the queue that points at it, and is not told again
        # by the queue that it says it belongs to.
        for name, runs in sorted(kept.items()):
            self._judge_sequence(name, runs)
            if name in self._survey.queues:
                self._judge_beyond(self._survey.queues[name], runs)
            else:
                self._judge_missing_queue(name, runs)

    def _without_removed(self, name: QueueName, runs: list[RunCompared]) -> list[RunCompared]:
        """Drop what was stored before a topic was removed and made again: offsets begin at 0 once more."""
        for number in range(len(runs) - 1, 0, -1):
            again, follower = runs[number], runs[number + 1 : number + 2]
            if again.first == 0 and (not follower or self._joins(again, follower[0])):
                what = f"the offsets of queue {name[1]} of {name[0]!r} begin again here"
                self._verdicts.note(again.first_position, f"{what}: the topic was removed and made again")
                return runs[number:]
        return runs

    def _joins(self, before: RunCompared, after: RunCompared) -> bool:
        return before.end == after.first or self._log.has_hole(before.last_position, after.first_position)

    # Entries

    def _judge_entries(self, queue: QueueSurvey, runs: list[RunCompared]) -> None:
        """Look at the entries that differ from the log, and at those that no record accounts for."""
        wrong = {one.offset: one.position for run in runs for one in run.wrong if one.offset < queue.end}
        for offset, position in sorted(wrong.items()):
            self._judge_entry(next(_entries(queue, offset, offset + 1)), position)
        uncounted = sum(run.wrong_count - len(run.wrong) for run in runs)
        if uncounted > 0:
            what = f"{uncounted} more entries of queue {queue.queue_id} of {queue.topic!r} are wrong"
            self._verdicts.say(queue.place_of(queue.first), what, REMEDY_QUEUES, is_made_again=False)
        first = min((run.first for run in runs), default=queue.end)
        for low, high in _uncovered(queue, runs):
            for entry in _entries(queue, low, high):
                has_expired = 0 <= entry.position < self._log.min_position
                if entry.offset >= first or not (has_expired or is_blank_entry(entry.position, entry.size)):
                    self._judge_entry(entry, None)

    def _judge_entry(self, entry: Entry, wanted: int | None) -> None:
        """Say what is wrong with an entry; `wanted` is the position of the record that has its offset."""
        position, size, log = entry.position, entry.size, self._log
        self._judged.add((entry.queue.name, entry.offset))
        is_known = log.has_expired(position) or log.is_unreadable(position) or position in log.distrusted
        if size > 0 and is_known:
            return
        right = f"; the message is at {wanted}" if wanted is not None else ""
        if size <= 0 or is_blank_entry(position, size):
            self._tell(entry, f"was never written{right}", wanted)
            return
        record = log.record_at(position)
        if record is None:
            where = "behind the end of the log" if position >= log.end else "where no record begins"
            self._tell(entry, f"points at {position}, {where}{right}", wanted)
        elif (record.topic, record.queue_id, record.queue_offset) != (*entry.queue.name, entry.offset):
            self._judge_stranger(entry, record, right)
        else:
            self._judge_fields(entry, record)

    def _judge_fields(self, entry: Entry, record: Record) -> None:
        """Compare an entry's size and tags code with the record that it is of.

        Both may be right: then it is the record before which they were found wrong that says a wrong offset.
        """
        code = entry_of(record, record.size, self._survey.delays_ms).tags_code
        if entry.size != record.size:
            self._tell(
                entry,
                f"says that its message has {entry.size} bytes, but it has {record.size}",
                entry.position,
            )
        elif entry.code == code or (self._survey.has_queue_extension and entry.code <= EXTENSION_ADDRESS_MAX):
            return
        elif record.topic != SCHEDULE:
            self._tell(entry, f"has the tags code {entry.code}, but its message has {code}", entry.position)
        elif entry.code == entry_of(record, record.size, {}).tags_code:
            # After a crash RocketMQ makes its queues again before it knows its delay levels.
            what = f"{entry} has no delivery time: RocketMQ made it again after a crash"
            self._verdicts.note(entry.position, what, "nothing: the message is delivered at once")
        else:
            self._tell(
                entry,
                f"has the delivery time {entry.code}, but its message has {code} "
                f"(if messageDelayLevel is another: --set messageDelayLevel)",
                entry.position,
            )

    def _judge_stranger(self, entry: Entry, record: Record, right: str) -> None:
        """An entry points at a record that says it is another: who is right shows where that other is."""
        position = entry.position
        says = f"message {record.queue_offset} of queue {record.queue_id} of {record.topic!r}"
        if self._has_entry(record, position):
            self._tell(entry, f"points at {position}, which is {says}{right}", None)
            return
        self._log.distrusted.add(position)
        if position not in self._told:
            self._told.add(position)
            what = f"the record says that it is {says}, but {entry} points at it, and no other does"
            self._verdicts.say_of_record(position, what)

    def _has_entry(self, record: Record, position: int) -> bool:
        """Return whether the queue of a record points at it where the record says."""
        queue = self._survey.queues.get((record.topic, record.queue_id))
        if queue is None or not queue.first <= record.queue_offset < queue.end:
            return False
        return next(_entries(queue, record.queue_offset, record.queue_offset + 1)).position == position

    def _tell(self, entry: Entry, what: str, record: int | None) -> None:
        if record is not None:
            self._told.add(record)
        is_made_again = self._verdicts.is_made_again(entry.position if record is None else record)
        self._verdicts.say(entry.place, f"{entry} {what}", REMEDY_QUEUES, is_made_again=is_made_again)

    # Messages

    def _judge_sequence(self, name: QueueName, runs: list[RunCompared]) -> None:
        """The offsets in the log itself: no gap and no repeat, unless records there are known to be lost."""
        for before, after in pairwise(runs):
            gap = range(before.end, after.first)
            if (
                self._joins(before, after)
                or {before.last_position, after.first_position} & self._told
                or (gap and all((name, offset) in self._judged for offset in gap))
            ):
                continue
            self._told.add(after.first_position)
            what = f"message {after.first} of queue {name[1]} of {name[0]!r} follows message {before.end - 1}"
            self._verdicts.say_of_record(
                after.first_position, f"{what}: {'a gap' if after.first > before.end else 'a repeat'}"
            )

    def _judge_beyond(self, queue: QueueSurvey, runs: list[RunCompared]) -> None:
        """Messages behind the end of their queue: not yet written, or lost."""
        for run in runs:
            lost = [
                position
                for position in run.beyond
                if position not in self._told and not self._verdicts.is_unsettled(position)
            ]
            if lost:
                offset, whose = run.end - run.beyond_count, f"queue {queue.queue_id} of {queue.topic!r}"
                what = f"{run.beyond_count} messages of {whose} have no entry; the first is at {lost[0]}"
                self._verdicts.say(queue.place_of(offset), what, REMEDY_QUEUES, is_made_again=False)

    def _judge_missing_queue(self, name: QueueName, runs: list[RunCompared]) -> None:
        topic, queue_id = name
        runs = [run for run in runs if run.first_position not in self._told]
        if not runs or self._verdicts.is_unsettled(runs[0].first_position):
            return
        count = sum(run.end - run.first for run in runs)
        what = f"{count} messages of queue {queue_id} of {topic!r} are in the log, but the queue has no files"
        has_siblings = any(queue.topic == topic for queue in self._survey.queues.values())
        if has_siblings or (self._topics is not None and topic in self._topics):
            folder = self._survey.root / "consumequeue" / topic / str(queue_id)
            self._verdicts.say((folder, 0), what, REMEDY_QUEUES, is_made_again=False)
        else:
            self._verdicts.note(runs[0].first_position, what, "nothing, if the topic was removed")


def _entries(queue: QueueSurvey, first: int, end: int) -> Iterator[Entry]:
    for fields in queue.entries(first, end):
        yield Entry(queue, *fields)


def _uncovered(queue: QueueSurvey, runs: list[RunCompared]) -> list[tuple[int, int]]:
    """Return the parts of a queue, from offset to offset, of which the log has no records."""
    parts = []
    at = queue.first
    for run in sorted(runs, key=lambda run: run.first):
        if run.first > at:
            parts.append((at, min(run.first, queue.end)))
        at = max(at, run.end)
    parts.append((at, queue.end))
    return [(low, high) for low, high in parts if low < high]
