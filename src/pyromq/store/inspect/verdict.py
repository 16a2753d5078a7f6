"""The verdict on entries that differ from the log: whether a difference is a fault.

Not every difference is damage. While a broker runs, and after one was killed, the newest queue and index
entries may not be written yet; the next start makes them again from the log. Entries of messages that
retention removed stay until their whole file goes. A damaged record is reported once, and not again for
each entry that points at it.
"""

from collections.abc import Iterable
from pathlib import Path

from pyromq.store.inspect.findings import REMEDY_LOG, StoreFinding, StoreReport
from pyromq.store.inspect.piece import look_at
from pyromq.store.inspect.read_only_files import FileGone, ReadOnlyFile
from pyromq.store.inspect.store_survey import StoreSurvey
from pyromq.wire.record import Record


class LogSeen:
    """The facts about the log that walking it gave."""

    def __init__(self, survey: StoreSurvey) -> None:
        self._survey = survey
        self._unreadable: list[tuple[int, int]] = []
        #: Positions of records whose topic or queue cannot be believed.
        self.distrusted: set[int] = set()
        self.min_position = survey.min_position
        self.end = 0

    def add_unreadable(self, parts: Iterable[tuple[int, int]]) -> None:
        """Note bytes that are no records, from position to position."""
        self._unreadable += parts

    def expire(self, min_position: int) -> None:
        """Note where the log begins by now."""
        self.min_position = max(self.min_position, min_position)
        self.end = max(self.end, min_position)

    def has_expired(self, position: int) -> bool:
        """Return whether retention took a position since the files were listed."""
        return self._survey.min_position <= position < self.min_position

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
        try:
            with ReadOnlyFile(file.path) as opened:
                return look_at(opened, file, position - file.base).record
        except FileGone:
            return None

    def place_of(self, position: int) -> tuple[str, int]:
        """Return the file of the log that holds a position, and the byte in it."""
        file = self._survey.log_file_of(position)
        if file is None:
            return str(self._survey.root / "commitlog"), position
        return str(file.path), position - file.base


class Verdicts:
    """Fault or note: what is said about the followers of the log."""

    def __init__(self, survey: StoreSurvey, log: LogSeen, report: StoreReport) -> None:
        self.survey = survey
        self.log = log
        self._report = report
        self._is_crashed = not survey.is_clean and not survey.is_running

    def is_unsettled(self, position: int) -> bool:
        """Return whether what follows the log may still lack the message at a position."""
        survey = self.survey
        if survey.is_clean:
            return False
        if survey.safe_position is not None:
            return position >= survey.safe_position
        record = self.log.record_at(position)
        return record is None or record.stored_at_ms > survey.oldest_ms

    def is_made_again(self, position: int) -> bool:
        """Return whether the next start makes the entries of a message again, whatever they are now."""
        return self._is_crashed and self.is_unsettled(position)

    def is_dropped(self, index_number: int) -> bool:
        """Return whether RocketMQ removes an index file at its next start (IndexService.java, load)."""
        is_newer = self.survey.index[index_number].end_at_ms > self.survey.index_at_ms
        return self._is_crashed and self.survey.safe_position is None and is_newer

    def say(self, place: tuple[str | Path, int], what: str, remedy: str, *, is_made_again: bool) -> None:
        """Report a fault, or a note if the next start mends it."""
        if is_made_again:
            remedy = "nothing: the broker was not stopped in order, and the next start makes it again"
        self._report.add(StoreFinding(str(place[0]), place[1], what, remedy, is_fault=not is_made_again))

    def say_of_record(self, position: int, what: str) -> None:
        """Report a fault of a record."""
        self._report.add(StoreFinding(*self.log.place_of(position), what, REMEDY_LOG))

    def note(self, position: int, what: str, remedy: str = "") -> None:
        """Explain something about the log from a position on."""
        self._report.add(StoreFinding(*self.log.place_of(position), what, remedy, is_fault=False))
