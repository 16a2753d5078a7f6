"""What is wrong with a queue or index entry that differs from the log, and whether it is a fault at all.

Not everything that differs is damage. While a broker runs, and after one was killed, the newest entries of
what follows the log may not be written yet; the next start makes them again from the log. Entries of
messages that retention took are left alone until their whole file goes. A topic that was removed leaves its
messages in the log. And one damaged record would be found again by everything that points at it, so what lies
in bytes that are known to be unreadable is not told twice.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

from pyromq.store.follower import entry_of
from pyromq.store.indexfile import ENTRY as KEY_ENTRY
from pyromq.store.indexfile import ENTRY_BYTES as KEY_BYTES
from pyromq.store.indexfile import HEADER_BYTES, SLOT_BYTES
from pyromq.store.inspect.chains import Broken, IndexChecked
from pyromq.store.inspect.compare import EXTENSION_ADDRESS_MAX, KeysCompared, RunCompared, seconds_since
from pyromq.store.inspect.facts import key_hashes
from pyromq.store.inspect.files import FileGone, ReadOnlyFile
from pyromq.store.inspect.findings import REMEDY_INDEX, REMEDY_LOG, REMEDY_QUEUES, Finding, Report
from pyromq.store.inspect.piece import look_at
from pyromq.store.inspect.survey import QueueName, QueueSurvey, Survey, is_blank_entry
from pyromq.wire.record import Record


class LogSeen:
    """What is known of the log after it was walked."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._unreadable: list[tuple[int, int]] = []
        #: Positions of records whose topic or queue cannot be believed.
        self.distrusted: set[int] = set()
        self.min_position = survey.min_position
        self.end = 0

    def add_unreadable(self, parts: Iterable[tuple[int, int]]) -> None:
        """Note bytes that are no records."""
        self._unreadable += parts

    def is_unreadable(self, position: int) -> bool:
        """Return whether a position lies in bytes that are known not to read."""
        return any(start <= position < end for start, end in self._unreadable)

    def has_hole(self, start: int, end: int) -> bool:
        """Return whether records may be missing between two positions."""
        return any(low < end and start < high for low, high in self._unreadable)

    def record_at(self, position: int) -> Record | None:
        """Return the record that begins at a position, if a whole one does."""
        file = self._survey.log_file_of(position)
        if file is None or position >= self.end:
            return None
        with ReadOnlyFile(file.path) as opened:
            return look_at(opened, file, position - file.base).record

    def place_of(self, position: int) -> tuple[str, int]:
        """Return the file of the log that holds a position, and the byte in it."""
        file = self._survey.log_file_of(position)
        if file is None:
            return str(self._survey.root / "commitlog"), position
        return str(file.path), position - file.base


class Judge:
    """Says what is wrong with the followers of a log that was walked."""

    def __init__(self, survey: Survey, log: LogSeen, report: Report, topics: frozenset[str] | None) -> None:
        self._survey = survey
        self._log = log
        self._report = report
        self._topics = topics
        #: Positions of records, and entries of queues, about which something was said.
        self._told: set[int] = set(log.distrusted)
        self._judged: set[tuple[QueueName, int]] = set()
        self._is_crashed = not survey.is_clean and not survey.is_running

    # What may be missing, and what is made again

    def _is_unsettled(self, position: int) -> bool:
        """Return whether what follows the log may still lack the message at a position."""
        survey = self._survey
        if survey.is_clean:
            return False
        if survey.safe_position is not None:
            return position >= survey.safe_position
        record = self._log.record_at(position)
        return record is None or record.stored_at_ms > survey.oldest_ms

    def _is_made_again(self, position: int) -> bool:
        """Return whether the next start makes the entries of a message again, whatever they are now."""
        return self._is_crashed and self._is_unsettled(position)

    def _say(self, place: tuple[str | Path, int], what: str, remedy: str, *, is_made_again: bool) -> None:
        if is_made_again:
            remedy = "nothing: the broker was not stopped in order, and the next start makes it again"
        self._report.add(Finding(str(place[0]), place[1], what, remedy, is_fault=not is_made_again))

    # Queues

    def judge_queues(self, runs_by_queue: Mapping[QueueName, list[RunCompared]]) -> None:
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
                self._report.add(
                    Finding(
                        *self._log.place_of(again.first_position),
                        f"the offsets of queue {name[1]} of {name[0]!r} begin again here: "
                        f"the topic was removed and made again",
                        is_fault=False,
                    )
                )
                return runs[number:]
        return runs

    def _joins(self, before: RunCompared, after: RunCompared) -> bool:
        return before.end == after.first or self._log.has_hole(before.last_position, after.first_position)

    def _judge_missing_queue(self, name: QueueName, runs: list[RunCompared]) -> None:
        topic, queue_id = name
        runs = [run for run in runs if run.first_position not in self._told]
        first = min((run.first_position for run in runs), default=None)
        if first is None or self._is_unsettled(first):
            return
        count = sum(run.end - run.first for run in runs)
        has_siblings = any(queue.topic == topic for queue in self._survey.queues.values())
        is_known = has_siblings or (self._topics is not None and topic in self._topics)
        what = f"{count} messages of queue {queue_id} of {topic!r} are in the log, but the queue has no files"
        if is_known:
            folder = self._survey.root / "consumequeue" / topic / str(queue_id)
            self._say((folder, 0), what, REMEDY_QUEUES, is_made_again=False)
        else:
            remedy = "nothing, if the topic was removed"
            self._report.add(Finding(*self._log.place_of(first), what, remedy, is_fault=False))

    def _judge_entries(self, queue: QueueSurvey, runs: list[RunCompared]) -> None:
        """Look at the entries that differ from the log, and at those that no record accounts for."""
        wrong = {one.offset: one.position for run in runs for one in run.wrong if one.offset < queue.end}
        for offset, position in sorted(wrong.items()):
            for entry in queue.entries(offset, offset + 1):
                self._judge_entry(queue, entry, position)
        uncounted = sum(run.wrong_count - len(run.wrong) for run in runs)
        if uncounted > 0:
            self._say(
                queue.place_of(queue.first),
                f"{uncounted} more entries are wrong",
                REMEDY_QUEUES,
                is_made_again=False,
            )
        first = min((run.first for run in runs), default=queue.end)
        for low, high in _uncovered(queue, runs):
            for entry in queue.entries(low, high):
                offset, position, size, _ = entry
                is_old = position < self._log.min_position or is_blank_entry(position, size)
                if not (offset < first and is_old):
                    self._judge_entry(queue, entry, None)

    def _judge_entry(self, queue: QueueSurvey, entry: tuple[int, int, int, int], wanted: int | None) -> None:
        """Say what is wrong with an entry; `wanted` is the position of the record that has its offset."""
        offset, position, size, code = entry
        log = self._log
        self._judged.add((queue.name, offset))
        if log.is_unreadable(position) and size > 0:
            return
        whose = f"entry {offset} of queue {queue.queue_id} of {queue.topic!r}"
        help_text = f"; the message is at {wanted}" if wanted is not None else ""
        record = log.record_at(position) if size > 0 else None
        place = queue.place_of(offset)
        is_made_again = self._is_made_again(wanted if wanted is not None else position)
        if size <= 0 or is_blank_entry(position, size):
            self._tell(place, f"{whose} was never written{help_text}", wanted, is_made_again=is_made_again)
        elif record is None:
            behind = "behind the end of the log" if position >= log.end else "where no record begins"
            what = f"{whose} points at {position}, {behind}{help_text}"
            self._tell(place, what, wanted, is_made_again=is_made_again)
        elif (record.topic, record.queue_id, record.queue_offset) != (*queue.name, offset):
            self._judge_stranger(queue, entry, record, help_text, is_made_again=is_made_again)
        else:
            self._judge_fields(whose, place, (size, code), record, is_made_again=is_made_again)

    def _judge_fields(
        self,
        whose: str,
        place: tuple[Path, int],
        is_there: tuple[int, int],
        record: Record,
        *,
        is_made_again: bool,
    ) -> None:
        """Compare an entry's size and tags code with the record it is of."""
        wanted = (record.size, entry_of(record, record.size, self._survey.delays_ms).tags_code)
        if is_there[0] != wanted[0]:
            what = f"{whose} says that its message has {is_there[0]} bytes, but it has {wanted[0]}"
        elif self._survey.has_queue_extension and is_there[1] <= EXTENSION_ADDRESS_MAX:
            return
        elif is_there[1] != wanted[1]:
            kind = "delivery time" if record.topic.startswith("SCHEDULE_") else "tags code"
            what = f"{whose} has the {kind} {is_there[1]}, but its message has {wanted[1]}"
        else:
            # The entry is right, so the record that was found first does not have the offset it says.
            return
        self._tell(place, what, record.position, is_made_again=is_made_again)

    def _judge_stranger(
        self,
        queue: QueueSurvey,
        entry: tuple[int, int, int, int],
        record: Record,
        help_text: str,
        *,
        is_made_again: bool,
    ) -> None:
        """An entry points at a record that says it is another: who is right shows where that other is."""
        offset, position, _, _ = entry
        says = f"message {record.queue_offset} of queue {record.queue_id} of {record.topic!r}"
        if self._has_entry(record, position):
            whose = f"entry {offset} of queue {queue.queue_id} of {queue.topic!r}"
            what = f"{whose} points at {position}, which is {says}{help_text}"
            self._tell(queue.place_of(offset), what, None, is_made_again=is_made_again)
            return
        what = (
            f"the record says that it is {says}, but entry {offset} of queue {queue.queue_id} "
            f"of {queue.topic!r} points at it, and no other does"
        )
        self._log.distrusted.add(position)
        if position not in self._told:
            self._told.add(position)
            self._report.add(Finding(*self._log.place_of(position), what, REMEDY_LOG))

    def _has_entry(self, record: Record, position: int) -> bool:
        """Return whether the queue of a record points at it where the record says."""
        queue = self._survey.queues.get((record.topic, record.queue_id))
        if queue is None or not queue.first <= record.queue_offset < queue.end:
            return False
        _, its_position, _, _ = next(queue.entries(record.queue_offset, record.queue_offset + 1))
        return its_position == position

    def _tell(self, place: tuple[Path, int], what: str, record: int | None, *, is_made_again: bool) -> None:
        if record is not None:
            self._told.add(record)
        self._say(place, what, REMEDY_QUEUES, is_made_again=is_made_again)

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
            what = (
                f"message {after.first} of queue {name[1]} of {name[0]!r} follows message {before.end - 1}: "
                f"{'a gap' if after.first > before.end else 'a repeat'}"
            )
            self._report.add(Finding(*self._log.place_of(after.first_position), what, REMEDY_LOG))

    def _judge_beyond(self, queue: QueueSurvey, runs: list[RunCompared]) -> None:
        """Messages behind the end of their queue: not yet written, or lost."""
        for run in runs:
            lost = [
                position
                for position in run.beyond
                if position not in self._told and not self._is_unsettled(position)
            ]
            if not lost:
                continue
            offset = run.end - run.beyond_count
            what = (
                f"{run.beyond_count} messages of queue {queue.queue_id} of {queue.topic!r} have no entry: "
                f"the first is message {offset}, at {lost[0]}"
            )
            self._say(queue.place_of(offset), what, REMEDY_QUEUES, is_made_again=False)

    # The index

    def judge_index(self, checked: list[IndexChecked], compared: list[KeysCompared]) -> None:
        """Look at index entries that no record accounts for, at missing ones, and at broken chains."""
        excused: defaultdict[int, set[int]] = defaultdict(set)
        for keys in compared:
            for file_number, number in keys.wrong:
                excused[file_number] |= self._judge_key(file_number, number)
        for file_number, one in enumerate(checked):
            broken = [what for what in one.broken if what.slot not in excused[file_number]]
            self._judge_chains(file_number, broken, one.broken_count - len(one.broken))
        for keys in compared:
            if keys.missing_count > keys.wrong_count:
                self._judge_missing_keys(keys)

    def _judge_key(self, file_number: int, number: int) -> set[int]:
        """Say what is wrong with an index entry; return the slots whose chains that disturbs."""
        survey, head = self._survey, self._survey.index[file_number]
        at = HEADER_BYTES + SLOT_BYTES * survey.slots + KEY_BYTES * number
        with ReadOnlyFile(head.path) as file:
            hashed, position, seconds, _ = KEY_ENTRY.unpack(file.read(KEY_BYTES, at).ljust(KEY_BYTES, b"\0"))
        slots = {hashed % survey.slots}
        if self._log.is_unreadable(position) or position < self._log.min_position:
            return slots
        record = self._log.record_at(position)
        if record is not None and position in self._log.distrusted:
            return slots
        is_made_again = self._is_made_again(position) or self._is_dropped(file_number)
        if record is None:
            what = f"entry {number} points at {position}, where no record begins"
            self._say((head.path, at + 4), what, REMEDY_INDEX, is_made_again=is_made_again)
            return slots
        hashes = key_hashes(entry_of(record, record.size, survey.delays_ms))
        if hashed not in hashes:
            what = f"entry {number} has the key hash {hashed}, but the message at {position} has no such key"
            self._say((head.path, at), what, REMEDY_INDEX, is_made_again=is_made_again)
        elif seconds != seconds_since(head.begin_at_ms, record.stored_at_ms) and number > 1:
            what = (
                f"entry {number} says that the message at {position} was stored {seconds} s after the first"
            )
            self._say((head.path, at + 12), what, REMEDY_INDEX, is_made_again=is_made_again)
        return slots | {one % survey.slots for one in hashes}

    def _is_dropped(self, file_number: int) -> bool:
        """Return whether RocketMQ removes the file at its next start (IndexService.java, load)."""
        survey = self._survey
        is_newer = survey.index[file_number].end_at_ms > survey.index_at_ms
        return self._is_crashed and survey.safe_position is None and is_newer

    def _judge_chains(self, file_number: int, broken: list[Broken], more: int) -> None:
        path = self._survey.index[file_number].path
        is_made_again = self._is_dropped(file_number)
        for one in broken:
            self._say((path, one.at), one.what, REMEDY_INDEX, is_made_again=is_made_again)
        if more > 0:
            self._say((path, 0), f"{more} more links are broken", REMEDY_INDEX, is_made_again=is_made_again)

    def _judge_missing_keys(self, keys: KeysCompared) -> None:
        """Messages whose keys are not in the index.

        In the middle of a file that is a fault. Between files, before the first and behind the last it is
        not: RocketMQ drops its newest file after a crash, and messageIndexEnable may have been off.
        """
        for head in self._survey.index:
            inside = [one for one in keys.missing if head.begin_position < one < head.end_position]
            if inside and not self._is_made_again(inside[0]):
                what = f"keys of {len(inside)} messages are not in the index; the first is at {inside[0]}"
                self._say((head.path, 0), what, REMEDY_INDEX, is_made_again=False)
                return
        first = keys.missing[0]
        if not self._is_unsettled(first):
            what = f"keys of {keys.missing_count} messages from here on are not in the index"
            remedy = "nothing, if messageIndexEnable was off or RocketMQ dropped the file after a crash"
            self._report.add(Finding(*self._log.place_of(first), what, remedy, is_fault=False))


def _uncovered(queue: QueueSurvey, runs: list[RunCompared]) -> list[tuple[int, int]]:
    """Return the parts of a queue, from offset to offset, of which the log has no records."""
    parts = []
    at = queue.first
    for run in sorted(runs, key=lambda run: run.first):
        if run.first > at:
            parts.append((at, min(run.first, queue.end)))
        at = max(at, run.end)
    if at < queue.end:
        parts.append((at, queue.end))
    return [(low, high) for low, high in parts if low < high]
