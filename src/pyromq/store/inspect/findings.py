"""Findings of `verify`: faults, which lost or may lose something, and notes, which explain."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

#: More faults than this are counted, and not listed: one lost file can make a million.
LISTED_MAX: Final = 1000
LISTED_MAX_PER_FILE: Final = 100

REMEDY_LOG: Final = (
    "put the file back from a backup or a replica; without one, the messages named here are lost"
)
REMEDY_QUEUES: Final = (
    "stop the broker and move the folder consumequeue away: the next start makes all queues again "
    "from the log"
)
REMEDY_INDEX: Final = (
    "stop the broker and move the folders index and consumequeue away: the next start makes both again "
    "from the log"
)


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """One thing that is not as it should be: where, what, and what to do about it."""

    file: str
    position: int
    what: str
    remedy: str = ""
    is_fault: bool = True

    def as_record(self) -> dict[str, Any]:
        """Return the finding for a program."""
        return {
            "event": "fault" if self.is_fault else "note",
            "file": self.file,
            "position": self.position,
            "what": self.what,
            "remedy": self.remedy,
        }


@dataclass(slots=True)
class StoreReport:
    """All findings of a look, and what was looked at."""

    root: str = ""
    state: str = ""
    listed: list[StoreFinding] = field(default_factory=list)
    fault_count: int = 0
    note_count: int = 0
    log_files: int = 0
    log_bytes: int = 0
    log_begin: int = 0
    log_end: int = 0
    records: int = 0
    queues: int = 0
    queue_entries: int = 0
    index_files: int = 0
    index_entries: int = 0
    tables: int = 0
    _per_file: Counter[str] = field(default_factory=Counter)

    @property
    def is_whole(self) -> bool:
        """Whether there is no fault."""
        return not self.fault_count

    @property
    def faults(self) -> list[StoreFinding]:
        """The faults that are listed."""
        return [finding for finding in self.listed if finding.is_fault]

    @property
    def notes(self) -> list[StoreFinding]:
        """The notes that are listed."""
        return [finding for finding in self.listed if not finding.is_fault]

    def add(self, finding: StoreFinding) -> None:
        """Count a finding, and list it unless there are too many."""
        if finding.is_fault:
            self.fault_count += 1
        else:
            self.note_count += 1
        self._per_file[finding.file] += 1
        if len(self.listed) < LISTED_MAX and self._per_file[finding.file] <= LISTED_MAX_PER_FILE:
            self.listed.append(finding)

    def as_record(self) -> dict[str, Any]:
        """Return the counts for a program."""
        names = (
            *("root", "state", "log_files", "log_bytes", "log_begin", "log_end", "records"),
            *("queues", "queue_entries", "index_files", "index_entries", "tables"),
        )
        counts = {name: getattr(self, name) for name in names}
        return {"event": "verified", "is_whole": self.is_whole, "faults": self.fault_count} | counts
