"""From the files as found to a store that runs, top to bottom.

Where to start (`_find_start`) is the one question with several answers:

1. Our checkpoint names a safe position: everything before it, in the log and in the followers, was synced.
2. Without it (RocketMQ wrote the files, or the checkpoint is gone) and after a clean stop: the newest message
   that a consume queue knows, provided that the log really has it there, else the last three files.
3. Without it and after a crash: the newest file whose first message is older than the checkpoint's times.

From there all cases are one: cut the followers back to the start, walk the log, apply each record to the
followers, and let the log end behind the last good one. A record that fails its checks is the torn end of the
log, because everything before the start is known to be whole.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pyromq.errors import DiskFull, StoreError
from pyromq.store.abort import Stop
from pyromq.store.checkpoint import REMAKING, Checkpoint
from pyromq.store.commitlog import CommitLog
from pyromq.store.consumequeue import ConsumeQueue
from pyromq.store.consumequeues import ConsumeQueues, QueueGap
from pyromq.store.follower import entry_of
from pyromq.store.index.index import KeyIndex, key_hashes
from pyromq.store.log_replay import LogReplay
from pyromq.store.segments import BrokenRow

_log: Final = logging.getLogger(__name__)
#: RocketMQ looks at this many files after a clean stop.
_FILES_LOOKED_AT: Final = 3


@dataclass(slots=True)
class Recovered:
    """The result of a recovery: its findings, and the work it did."""

    stop: Stop
    start: int = 0
    end: int = 0
    last_stored_at_ms: int = 0
    replayed: int = 0
    findings: list[str] = field(default_factory=list)

    @property
    def was_clean(self) -> bool:
        """Whether the store was stopped in order."""
        return self.stop is Stop.IN_ORDER

    def find_once(self, what: str) -> None:
        """Note something, unless it was."""
        if what not in self.findings:
            self.find(what)

    def find(self, what: str) -> None:
        """Note something that should not be so."""
        self.findings.append(what)
        _log.warning("%s", what)


@dataclass(slots=True)
class Recovery:
    """One run of recovery over the parts of a store whose files are not loaded yet."""

    log: CommitLog
    queues: ConsumeQueues
    index: KeyIndex | None
    checkpoint: Checkpoint
    delays_ms: Mapping[int, int]
    check_crc: bool = True

    def run(self, stop: Stop) -> Recovered:
        """Bring log and followers to the same, whole state; afterwards the log may be appended to."""
        report = Recovered(stop)
        self.log.load()
        self.queues.find_all()
        if not report.was_clean:
            self.queues.sync_names()
        damage = self.checkpoint.load()
        if damage is not None:
            report.find(damage)
        try:
            self._bring_together(report)
        except BrokenRow as broken:
            report.find(f"{broken}; making all consume queues again from the log")
            self._distrust_followers()
            ends = self.queues.remove_damaged()
            self._bring_together(report)
            self.queues.go_on_behind(ends)
        self._note_last_time(report)
        self.log.forget_pages()
        return report

    def cut(self, position: int) -> Recovered | None:
        """Let everything at a log position or behind it go; all must be in order and on the disk.

        The checkpoint goes back first. From then on a start after a crash begins there: with what is left of
        the log at that moment, and without what the followers made of the rest.

        Raises StoreError when no record begins there.
        """
        if position >= self.log.end:
            return None
        self._check_boundary(position)
        self.checkpoint.safe_position = position
        self.checkpoint.save()
        self.log.cut_at(position, synced=position)
        self.queues.close()
        self.queues.find_all()
        if self.index is not None:
            self.index.close()
        # Nothing that was written is missing, as after a kill.
        report = Recovered(Stop.KILLED)
        self._replay_from(position, report)
        self._note_last_time(report)
        return report

    def _check_boundary(self, position: int) -> None:
        segment = self.log.segment_at(position)
        if segment is None:
            raise StoreError(f"the log begins at {self.log.min_position} and cannot be cut at {position}")
        is_start = position == segment.base or self.log.behind_blank(position) != position
        if not is_start and self.log.record_bytes(position) is None:
            raise StoreError(f"the log cannot be cut at {position}: no record begins there")

    def _bring_together(self, report: Recovered) -> None:
        if not self.log.segments:
            self._forget_followers(report)
        elif report.was_clean and self._is_as_we_left_it(report):
            report.start = report.end = self.log.end
            self._check_newest(report)
        else:
            report.start = self._find_start(report)
            self._replay(report)
            self.log.cut_at(report.end, synced=report.start)
            safe = self.checkpoint.safe_position
            if not report.was_clean and safe is not None:
                # Also when the queues are made again from the log's beginning.
                self.log.write_again(safe)

    def _forget_followers(self, report: Recovered) -> None:
        """Without a log there is nothing to follow (CommitLog.java, recoverNormally)."""
        if len(self.queues):
            report.find(f"{self.log.folder} has no files, so the consume queues and the index go too")
        self.queues.remove_all()
        if self.index is not None:
            self.index.load()
            self.index.remove_all()

    # A clean stop, by us

    def _is_as_we_left_it(self, report: Recovered) -> bool:
        """Load everything where the checkpoint says the log ends, and see whether it fits."""
        end = self._safe_position(report)
        if end is None:
            return False
        self.log.open_at(end)
        for queue in self.queues:
            queue.load(self.log.min_position)
        if self.index is not None:
            self.index.load()
        if next(self.log.walk(end), None) is not None:
            return False
        if self.queues.reach != self.checkpoint.reach and len(self.queues):
            raise BrokenRow(f"damaged: the queues end at {self.queues.reach} of the log, but ended at {end}")
        return self.queues.reach == self.checkpoint.reach

    def _check_newest(self, report: Recovered) -> None:
        reach = self.queues.reach
        if reach <= self.log.min_position:
            return
        for queue in self.queues:
            place = queue.place(queue.end - 1) if queue.reach == reach else None
            if place is not None:
                if next(self.log.walk(place[0]), None) is None:
                    report.find(f"damaged: {self.log.why_no_record(place[0])}")
                return

    def _safe_position(self, report: Recovered) -> int | None:
        """Return the checkpoint's position, unless the newest file does not have all bytes before it.

        A file in the middle of the log that lost bytes is reported: those messages are gone, and the others
        are served.
        """
        safe = self.checkpoint.safe_position
        lost = self.log.missing_bytes(self.log.segments[-1].base if safe is None else safe)
        for segment, length in lost.items():
            report.find_once(
                f"damaged: {segment.path} lost everything from byte {length} on; put the whole file back, "
                f"or go without the messages that were there"
            )
            if segment is self.log.segments[-1]:
                return None
        return safe if safe is None else max(safe, self.log.min_position)

    def _whole_before(self) -> int:
        """Return the log position before which a crash leaves no damage: what fails there is passed over."""
        safe, last = self.checkpoint.safe_position, self.log.segments[-1]
        if safe is not None and last not in self.log.missing_bytes(safe):
            return min(safe, last.end)
        for segment in reversed(self.log.segments):
            # RocketMQ makes files in advance: one without a record says nothing of those before it.
            record = next(self.log.walk(segment.base, check_crc=False), None)
            if record is not None and record.position == segment.base:
                return segment.base
        return self.log.min_position

    # Everything else

    def _find_start(self, report: Recovered) -> int:
        segments = self.log.segments
        safe = self._safe_position(report)
        if not len(self.queues) or self.checkpoint.reach == REMAKING:
            # Somebody removed the queues so that they are made again, or there never were any; or the power
            # failed while they were being made again.
            return self.log.min_position
        if safe is not None and (not report.was_clean or safe <= self._newest_in_queues()):
            return safe
        if report.was_clean:
            newest = self._newest_in_queues()
            first = segments[max(len(segments) - _FILES_LOOKED_AT, 0)].base
            return newest if newest > first and next(self.log.walk(newest), None) is not None else first
        return self._start_by_time()

    def _newest_in_queues(self) -> int:
        """Return the position of the newest message that a queue knows."""
        newest = 0
        for queue in self.queues:
            queue.load(self.log.min_position)
            place = queue.place(queue.end - 1)
            if place is not None and queue.reach:
                newest = max(newest, place[0])
        return newest

    def _start_by_time(self) -> int:
        oldest_ms = self.checkpoint.oldest_ms()
        # Where we stopped before RocketMQ began: its times are not newer than that unless they are damaged.
        stale = self.checkpoint.stale_position
        for segment in reversed(self.log.segments):
            record = next(self.log.walk(segment.base, check_crc=False), None)
            is_old = record is not None and 0 < record.stored_at_ms <= oldest_ms
            if is_old and (stale is None or segment.base <= stale):
                return segment.base
        return self.log.min_position

    def _replay(self, report: Recovered) -> None:
        try:
            self.queues.gaps_are_filled = report.start == self.log.min_position
            self._replay_from(report.start, report)
        except QueueGap as gap:
            report.find(f"{gap}; making all consume queues again from the log")
            self._distrust_followers()
            ends = self.queues.remove_damaged()
            self.queues.gaps_are_filled = True
            self._replay_from(self.log.min_position, report)
            self.queues.go_on_behind(ends)
        finally:
            self.queues.gaps_are_filled = True

    def _replay_from(self, start: int, report: Recovered) -> None:
        if start < (self.checkpoint.safe_position or 0):
            self._distrust_followers()
        report.start, report.end, report.replayed = start, start, 0
        was_killed = report.stop is Stop.KILLED
        for queue in self.queues:
            is_in_log = partial(self._is_in_log, queue)
            queue.load_before(start, self.log.min_position, is_in_log, was_killed=was_killed)
        if self.index is not None:
            self.index.load_before(start, self._has_key, is_whole=was_killed)
        self._walk(start, report)
        for queue in self.queues:
            queue.find_beginning(self.log.min_position)
        torn = self.log.why_no_record(report.end)
        if torn is not None:
            report.find(f"the log ends before {torn}")

    def _distrust_followers(self) -> None:
        """Before followers are cut that the checkpoint calls safe: the next start makes them again.

        A power cut in the middle would otherwise leave them without what was before the safe position.
        """
        if self.checkpoint.safe_position is not None:
            self.checkpoint.reach = REMAKING
            with suppress(DiskFull):
                # The start goes on without: whoever needs room must be able to delete.
                self.checkpoint.save()

    def _is_in_log(self, queue: ConsumeQueue, offset: int, position: int, size: int) -> bool:
        record = next(self.log.walk(position, check_crc=False), None)
        return record is not None and (
            (record.topic, record.queue_id, record.queue_offset, record.position, record.size)
            == (queue.topic, queue.queue_id, offset, position, size)
        )

    def _has_key(self, position: int, hashed: int) -> bool | None:
        if position < self.log.min_position:
            return None
        record = next(self.log.walk(position, check_crc=False), None)
        if record is None or record.position != position:
            return False
        return hashed in key_hashes(entry_of(record, record.size, self.delays_ms))

    def _walk(self, start: int, report: Recovered) -> None:
        replay = LogReplay(self.log, self.queues, self.index, self.delays_ms, check_crc=self.check_crc)
        replay.end = start
        position: int | None = start
        while position is not None:
            replay.run(position)
            report.end, report.replayed = max(report.end, replay.end), replay.count
            report.last_stored_at_ms = replay.last_stored_at_ms or report.last_stored_at_ms
            position = self._behind_damage(report)

    def _behind_damage(self, report: Recovered) -> int | None:
        """Return where to go on behind a damaged part that no crash can have left; None at the end."""
        damaged_at, whole_before = self.log.behind_blank(report.end), self._whole_before()
        if damaged_at >= whole_before:
            return None
        position = self.log.next_record(damaged_at, whole_before) or whole_before
        what = self.log.why_no_record(damaged_at) or f"there is nothing at {damaged_at} of the log"
        report.find(f"damaged: {what}; {position - damaged_at} bytes are passed over")
        report.end = position
        return position

    def _note_last_time(self, report: Recovered) -> None:
        """Without a replayed record, the newest time is that of the checkpoint."""
        if not report.last_stored_at_ms:
            report.last_stored_at_ms = self.checkpoint.log_at_ms
