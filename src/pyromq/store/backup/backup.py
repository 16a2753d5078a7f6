"""One backup: the conditions, the order in which parts are copied, and the report. See `__init__.py`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyromq.clock import Clock
from pyromq.errors import ConfigError, DiskFull, StoreError
from pyromq.store.atomic_file import replace_file
from pyromq.store.backup.backup_manifest import FILE_NAME, BackupManifest, load_manifest
from pyromq.store.backup.follower_backup import FOLDERS, FollowersCopy
from pyromq.store.backup.log import Advance, LogCopy
from pyromq.store.backup.table_backup import TablesCopy, copy_timers, put_timers_in_place
from pyromq.store.checkpoint import Checkpoint
from pyromq.store.epochs import FILE_NAME as EPOCHS
from pyromq.store.files import Files, SystemFiles
from pyromq.store.inspect.read_only_files import FileGone, is_locked, names_in, read_whole
from pyromq.store.inspect.store_survey import row_of

#: Room that tables, folders and the file system's own take.
_SPARE_BYTES: Final = 16 << 20
_FOLDER_MODE: Final = 0o700
_LOCK: Final = "lock"
#: What a store consists of; queues and index have their names in `follower_backup.py`.
_KNOWN: Final = frozenset(
    {_LOCK, "abort", "checkpoint", "commitlog", "config", "timers", EPOCHS, FILE_NAME, *FOLDERS}
)
_PASSING: Final = (".tmp", ".bak", ".damaged")


def _ignore(_: int) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOrder:
    """An order to back up a store: the store, the target folder, and the options."""

    root: Path
    log_folder: Path
    #: The store's own folder, or the one that holds it and other brokers': nothing else belongs in there.
    folder: Path
    target: Path
    #: The store's host and folder, for people who find the copy.
    name: str
    #: Whether full files of the log are links to the store's instead of copies.
    is_linked: bool = False
    #: Whether what retention took from the store goes from the copy too.
    is_pruned: bool = False


@dataclass(slots=True)
class BackedUp:
    """The result of a backup: its state now, and the work that was done."""

    source: str
    target: str
    is_first: bool
    begin: int = 0
    end: int = 0
    copied_bytes: int = 0
    linked_files: int = 0
    follower_files: int = 0
    tables: int = 0
    removed_files: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def as_record(self) -> dict[str, Any]:
        """Return it for a program."""
        names = (
            *("source", "target", "is_first", "begin", "end", "copied_bytes", "linked_files"),
            *("follower_files", "tables", "removed_files", "seconds", "notes"),
        )
        return {"event": "backed_up"} | {name: getattr(self, name) for name in names}


class _Gathered(NamedTuple):
    """Files that were copied and are not in their place yet."""

    checkpoint: bytes | None
    timers: Path | None
    was_stopped: bool


class Backup:
    """One backup: make it, which refuses what cannot be, read `total_bytes` for a progress bar, `run` it.

    Raises ConfigError for a folder that is not for this backup, StoreLocked when a broker or another backup
    is at work in it, DiskFull when there is too little room.
    """

    def __init__(self, wanted: BackupOrder, *, clock: Clock, files: Files | None = None) -> None:
        self._wanted = wanted
        self._clock = clock
        self._files = files = files or SystemFiles()
        self._check_places()
        self._manifest = load_manifest(wanted.target, files) or self._new_manifest()
        self._log = LogCopy(
            wanted.log_folder,
            wanted.target / "commitlog",
            files,
            begin=self._manifest.begin,
            end=self._manifest.end,
        )
        self._checkpoint = Checkpoint(SystemFiles(), wanted.root / "checkpoint")
        self._checkpoint.load()
        self._followers = FollowersCopy(
            wanted.root,
            wanted.target,
            files,
            self._manifest.stamps,
            has_true_times=self._checkpoint.safe_position is not None,
        )
        self._tables = TablesCopy(wanted.root, wanted.target, files)
        self._done = BackedUp(str(wanted.root), str(wanted.target), not self._manifest.is_whole)
        self._check_same()
        self._check_gap()
        self.total_bytes = self._log.new_bytes(is_linked=wanted.is_linked) + self._followers.new_bytes()
        self._check_room()

    # What is refused

    def _check_places(self) -> None:
        target = self._wanted.target.resolve()
        for source in (self._wanted.folder.resolve(), self._wanted.log_folder.resolve()):
            if target.is_relative_to(source) or source.is_relative_to(target):
                raise ConfigError(f"{target} and the store in {source} must not be inside of one another")

    def _new_manifest(self) -> BackupManifest:
        target = self._wanted.target
        if set(self._files.names(target)) - {_LOCK}:
            raise ConfigError(
                f"{target} is not empty and is no backup: it has no {FILE_NAME}; name another folder"
            )
        return BackupManifest(source=self._wanted.name)

    def _check_same(self) -> None:
        """Refuse another store's backup, and one that has what this store lost."""
        source, target = self._manifest.source, self._wanted.target
        is_other = source != self._wanted.name and self._log.begin == self._log.end
        if is_other or not self._log.is_of_this_log():
            raise ConfigError(
                f"{target} is a backup of another store ({source}); back up into a folder of its own"
            )
        if not self._log.has_gap() and not self._log.is_continued():
            raise ConfigError(
                f"{target}, a backup of {source}, has messages that {self._wanted.root} has not: its log was "
                f"cut since (a power cut, another broker that became master, an older copy that was put "
                f"back), or it is another store. The backup stays as it is; back up into a new folder"
            )

    def _check_gap(self) -> None:
        """Begin an empty copy where the log begins; refuse to lose what was copied before."""
        row = row_of(self._wanted.log_folder)
        if self._log.has_gap(row):
            self._check_loss(row[0].base)
        self._is_begun_anew = self._log.end == self._log.begin or self._log.has_gap(row)

    def _check_loss(self, begin: int) -> None:
        if self._manifest.is_whole and not self._wanted.is_pruned:
            raise ConfigError(
                f"{self._wanted.target} has the log up to {self._log.end}, and the store begins at {begin} "
                f"now: what was between was never copied. Back up into a new folder, or let the older "
                f"messages go with --prune"
            )

    def _check_room(self) -> None:
        place = self._wanted.target
        while not self._files.exists(place) and place != place.parent:
            place = place.parent
        usable = self._files.disk_use(place).usable_bytes
        needed = self.total_bytes + _SPARE_BYTES
        if usable < needed:
            raise DiskFull(
                f"the disk of {place} has {usable:,} bytes left, and the backup needs {needed:,}: "
                f"{needed - usable:,} more. Nothing was copied"
            )

    # What is done

    def run(self, advance: Advance = _ignore) -> BackedUp:
        """Copy what is new; when this returns, it is on the disk.

        Whenever it is interrupted, the next run goes on, and a backup that was finished before is still good.
        """
        began = self._clock.monotonic()
        self._manifest.started_at_ms = self._clock.now_ms()
        self._make_target()
        lock = self._files.lock(self._wanted.target / _LOCK)
        try:
            self._copy(advance)
        finally:
            lock.release()
        done = self._done
        done.begin, done.end = self._log.begin, self._log.end
        done.copied_bytes, done.linked_files = self._log.copied_bytes, self._log.linked_count
        done.follower_files, done.tables = self._followers.copied_count, self._tables.count
        done.notes += self._left_out()
        done.seconds = round(self._clock.monotonic() - began, 3)
        return done

    def _left_out(self) -> list[str]:
        """Return what stands beside the store's own parts, and nobody here knows what it is."""
        names = [name for name in names_in(self._wanted.root) if name not in _KNOWN]
        return [
            f"{name} is no part of a store, and was not copied"
            for name in names
            if not name.endswith(_PASSING)
        ]

    def _make_target(self) -> None:
        target = self._wanted.target
        is_new = not self._files.exists(target)
        self._files.make_folder(target)
        if is_new and isinstance(self._files, SystemFiles):
            # Messages and secrets: nobody else's concern until somebody says so.
            target.chmod(_FOLDER_MODE)

    def _copy(self, advance: Advance) -> None:
        wanted, files = self._wanted, self._files
        self._manifest.save(wanted.target, files)
        # Without it a start would believe that nothing is left to be done.
        replace_file(wanted.target / "abort", b"", files=files, has_twin=False)
        if self._is_begun_anew:
            self._begin_anew()
        gathered = None
        while gathered is None:
            try:
                gathered = self._gather(advance)
            except FileGone:
                # Retention was faster: everything before the store's oldest file is of no use now.
                self._begin_anew()
        self._put_in_place(gathered)
        if gathered.was_stopped and gathered.checkpoint == self._checkpoint_of_stopped():
            files.remove(wanted.target / "abort")
        self._finish()

    def _gather(self, advance: Advance) -> "_Gathered":
        """Copy everything, and sync it; what says that it is there is held back."""
        wanted, files = self._wanted, self._files
        self._log.copy_whole(advance, self._note, is_linked=wanted.is_linked)
        disk = files.whole_disk(wanted.target)
        try:
            was_stopped = self._checkpoint_of_stopped() is not None
            checkpoint = read_whole(wanted.root / "checkpoint")
            self._checkpoint.load()
            self._followers.copy(self._clock.now_ms(), advance, is_each_synced=not disk.is_reliable)
            timers = copy_timers(wanted.root, wanted.target) if isinstance(files, SystemFiles) else None
            self._tables.read_early()
            self._log.copy_rest(advance)
            self._tables.read_late(self._log.end)
            self._check_not_cut()
            if disk.is_reliable:
                disk.sync()
        finally:
            disk.close()
        return _Gathered(checkpoint, timers, was_stopped)

    def _begin_anew(self) -> None:
        row = row_of(self._wanted.log_folder)
        if self._log.has_gap(row):
            self._check_loss(row[0].base)
        self._manifest.is_whole = False
        self._note()
        self._log.begin_at(row[0].base if row else 0)
        self._note()

    def _note(self) -> None:
        self._manifest.begin, self._manifest.end = self._log.begin, self._log.end
        self._manifest.save(self._wanted.target, self._files)

    def _checkpoint_of_stopped(self) -> bytes | None:
        """Return the checkpoint of a store whose broker stopped in order; None if one runs, or was killed."""
        root = self._wanted.root
        is_stopped = not (root / "abort").exists() and not is_locked(root / _LOCK)
        return read_whole(root / "checkpoint") if is_stopped else None

    def _check_not_cut(self) -> None:
        """Raise StoreError if the store was cut meanwhile: parts of the copy would not fit together."""
        now = Checkpoint(SystemFiles(), self._wanted.root / "checkpoint")
        now.load()
        is_cut = (now.safe_position or self._log.end) < (self._checkpoint.safe_position or 0)
        if is_cut or not (self._log.has_gap() or self._log.is_continued()):
            raise StoreError(
                f"the log of {self._wanted.root} was cut while it was copied: its broker was restarted or "
                f"became a slave. Back up again"
            )

    def _put_in_place(self, gathered: "_Gathered") -> None:
        if gathered.timers is not None:
            put_timers_in_place(gathered.timers)
        self._tables.put_in_place()
        if gathered.checkpoint is not None:
            # A store has no twin of its checkpoint.
            replace_file(
                self._wanted.target / "checkpoint", gathered.checkpoint, files=self._files, has_twin=False
            )

    def _finish(self) -> None:
        if self._wanted.is_pruned:
            self._done.removed_files += self._log.forget_before()
        self._done.removed_files += self._followers.forget(is_pruned=self._wanted.is_pruned)
        manifest = self._manifest
        manifest.is_whole = True
        manifest.ended_at_ms = self._clock.now_ms()
        manifest.stamps = self._followers.stamps
        self._note()
