"""`pyromq store verify`: is everything in a store's files, whole, and does it fit together?

    1. survey     what files are there, and how far do they go
    2. tables     do the configuration tables read
    3. index      does each index file hold together (`chains`)
    4. log        every record, and what its followers should hold of it (`piece`, `scan`, `compare`)
    5. verdicts   what differs: is it a fault, and whose (`queues`, `keys`)

Nothing is written and no lock is taken. The pieces of the log and the index files are independent of each
other, so that `run` may be the `map` of a pool of processes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from pyromq.store.backup.backup_manifest import FILE_NAME as MANIFEST
from pyromq.store.backup.backup_manifest import load_manifest
from pyromq.store.files import SystemFiles
from pyromq.store.inspect.chains import IndexChecked, check_index_file
from pyromq.store.inspect.compare import KEPT_MAX, KeyRange, KeysCompared, RunCompared
from pyromq.store.inspect.findings import REMEDY_LOG, REMEDY_QUEUES, StoreFinding, StoreReport
from pyromq.store.inspect.keys import IndexJudge
from pyromq.store.inspect.piece import PIECE_BYTES, LogPiece, PieceChecked, PieceEnding, check_piece
from pyromq.store.inspect.queues import QueueJudge
from pyromq.store.inspect.read_only_files import FileGone, ReadOnlyFile
from pyromq.store.inspect.store_survey import Layout, QueueName, RowFile, StoreSurvey, row_of, take_survey
from pyromq.store.inspect.table_inspection import check_tables
from pyromq.store.inspect.verdict import LogSeen, Verdicts

T = TypeVar("T")
R = TypeVar("R")
#: `map`, or one that shares the work between processes and gives the results in the same order.
Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
#: Told the bytes that were looked at since the last call.
Advance = Callable[[int], None]

_CLOCK_STEP_MS: Final = 60_000


def _ignore(_: int) -> None:
    pass


class Verification:
    """One look at a store: make it, read `total_bytes` for a progress bar, and `run` it."""

    def __init__(self, layout: Layout, *, piece_bytes: int = PIECE_BYTES) -> None:
        self._layout = layout
        self._survey = take_survey(layout)
        #: The pieces of each file; None when the file went since it was listed.
        self._pieces = [_pieces_of(file, piece_bytes) for file in self._survey.log]
        self._log = LogSeen(self._survey)
        self._runs: defaultdict[QueueName, list[RunCompared]] = defaultdict(list)
        self._keys: list[KeysCompared] = []
        self._newest = -1
        self._report = StoreReport(root=str(layout.root), state=_state(self._survey))

    @property
    def total_bytes(self) -> int:
        """The number of bytes of the log that are to be checked."""
        return sum(piece.stop - piece.start for piece in self._all_pieces())

    def _all_pieces(self) -> list[LogPiece]:
        return [piece for pieces in self._pieces for piece in pieces or ()]

    def run(self, *, run: Run = map, advance: Advance = _ignore) -> StoreReport:
        """Look at everything, and return what was found."""
        survey, report = self._survey, self._report
        self._count()
        tables = check_tables(survey.root / "config")
        report.tables = tables.count
        boundaries = [piece.file.base + piece.start for piece in self._all_pieces()]
        index = list(run(partial(check_index_file, survey, boundaries), range(len(survey.index))))
        report.index_entries = sum(one.entries for one in index)
        self._walk_log(index, run, advance)
        self._check_rows()
        # Retention may have taken files since they were listed.
        self._log.expire(min((file.base for file in row_of(self._layout.log_folder)), default=0))
        self._check_checkpoint()
        if (survey.root / "abort").exists():
            # A broker was started meanwhile.
            survey = replace(survey, is_clean=False)
        verdicts = Verdicts(survey, self._log, report)
        QueueJudge(verdicts, tables.topics).judge(self._runs)
        IndexJudge(verdicts).judge(index, self._keys)
        for finding in (*tables.findings, *_unfinished_backup(survey.root)):
            report.add(finding)
        return report

    def _count(self) -> None:
        survey, report = self._survey, self._report
        report.log_files = len(survey.log)
        report.log_bytes = self.total_bytes
        report.log_begin = survey.min_position
        report.queues = len(survey.queues)
        report.queue_entries = sum(queue.end - queue.first for queue in survey.queues.values())
        report.index_files = len(survey.index)

    # The log

    def _walk_log(self, index: Sequence[IndexChecked], run: Run, advance: Advance) -> None:
        pieces = _with_keys(self._all_pieces(), index)
        results: Iterator[PieceChecked] = iter(run(partial(check_piece, self._survey), pieces))
        for number, file in enumerate(self._survey.log):
            has_more = any(self._pieces[number + 1 :])
            pieces_here = self._pieces[number]
            at, ending = 0, PieceEnding.GONE if pieces_here is None else PieceEnding.AT_STOP
            for _ in pieces_here or ():
                checked = next(results)
                advance(checked.piece.stop - checked.piece.start)
                if ending is PieceEnding.AT_STOP and at < checked.piece.stop:
                    if checked.start != at:
                        # The piece did not begin where the one before it ended, and is looked at again.
                        checked = self._again(checked.piece, at)
                    at, ending = checked.end, checked.ending
                    self._take(checked)
            self._end_file(file, at, ending, has_more=has_more)

    def _again(self, piece: LogPiece, start: int) -> PieceChecked:
        return check_piece(
            self._survey, LogPiece(piece.file, start, piece.stop, is_exact=True, keys=piece.keys)
        )

    def _take(self, checked: PieceChecked) -> None:
        for finding in checked.findings:
            self._say(checked.piece.file, finding)
        self._report.records += checked.records
        self._newest = max(self._newest, checked.newest)
        self._log.add_unreadable(checked.unreadable)
        self._log.distrusted.update(checked.distrusted)
        for one in checked.runs:
            _append(self._runs[one.name], one)
        if checked.keys.wrong_count or checked.keys.missing_count:
            self._keys.append(checked.keys)

    def _say(self, file: RowFile, finding: StoreFinding) -> None:
        if self._is_known(file.base + finding.position):
            self._report.add(finding)
        elif not self._survey.is_running:
            what = f"the log ends before this: {finding.what}"
            remedy = "nothing: nobody was promised what stands here, and the next start goes on from here"
            self._report.add(StoreFinding(finding.file, finding.position, what, remedy, is_fault=False))

    def _is_known(self, position: int) -> bool:
        """Return whether something says that a message was stored at a position or behind it.

        After a crash only the checkpoint says so: of what came later, anything may have reached the disk.
        """
        survey = self._survey
        if survey.safe_position is not None and not survey.is_clean and not survey.is_running:
            return position < survey.safe_position
        return position < max(survey.safe_position or 0, survey.reach)

    def _end_file(self, file: RowFile, at: int, ending: PieceEnding, *, has_more: bool) -> None:
        """Say where the log ends, or what is wrong with a file that is followed by others."""
        if ending is PieceEnding.GONE:
            self._log.add_unreadable([(file.base, file.end)])
            return
        if ending is PieceEnding.BLANK or not has_more or file.length - at < 8:
            self._log.end = max(self._log.end, file.end if ending is PieceEnding.BLANK else file.base + at)
            return
        self._log.end = file.end
        self._log.add_unreadable([(file.base + at, file.base + self._survey.segment_bytes)])
        if ending is PieceEnding.AT_STOP:
            what = "the records end here without a blank, although files behind this one have records"
            self._say(file, StoreFinding(str(file.path), at, what, REMEDY_LOG))

    # Rows of files, and the checkpoint

    def _check_rows(self) -> None:
        survey = self._survey
        for missing in self._check_row(survey.log, survey.segment_bytes, REMEDY_LOG):
            self._log.add_unreadable([missing])
        for queue in survey.queues.values():
            for _ in self._check_row(queue.files, survey.queue_file_bytes, REMEDY_QUEUES):
                continue

    def _check_row(self, row: Sequence[RowFile], usual_bytes: int, remedy: str) -> Iterator[tuple[int, int]]:
        """Report files of a wrong length, and yield from where to where files are missing."""
        for number, file in enumerate(row):
            is_last = number == len(row) - 1
            is_being_made = is_last and not file.length and self._survey.is_running
            if file.length != usual_bytes and not is_being_made:
                what = f"the file has {file.length} bytes; the others have {usual_bytes}"
                is_fault = not is_last or self._survey.is_clean or file.length > usual_bytes
                self._report.add(StoreFinding(str(file.path), file.length, what, remedy, is_fault=is_fault))
            due = file.base + usual_bytes
            if not is_last and row[number + 1].base != due:
                missing = file.path.with_name(f"{due:020d}")
                self._report.add(StoreFinding(str(missing), 0, "the file is missing", remedy))
                yield due, row[number + 1].base

    def _check_checkpoint(self) -> None:
        survey, report = self._survey, self._report
        report.log_end = self._log.end
        wrong = [survey.checkpoint_damage] if survey.checkpoint_damage is not None else []
        if (survey.safe_position or 0) > self._log.end:
            wrong.append(f"the log was safe up to {survey.safe_position}, but it ends at {self._log.end}")
        if survey.checkpoint_reach > (survey.safe_position or 0):
            wrong.append(f"the queues reached {survey.checkpoint_reach}, behind what was safe")
        # Times that we wrote are right: a clock stepped, or the next master's is another one.
        record = self._log.record_at(self._newest) if survey.safe_position is None else None
        for name, time_ms in (("log", survey.log_at_ms), ("queues", survey.queues_at_ms)):
            if time_ms < 0 or (record is not None and time_ms > record.stored_at_ms + _CLOCK_STEP_MS):
                wrong.append(f"the {name} was synced up to a time that no message has: {time_ms} ms")
        remedy = "nothing, if the log is whole: the next start looks at all of it and writes a new one"
        for what in wrong:
            report.add(StoreFinding(str(survey.root / "checkpoint"), 0, what, remedy))


def _unfinished_backup(root: Path) -> Iterator[StoreFinding]:
    manifest = load_manifest(root, SystemFiles())
    if manifest is not None and not manifest.is_whole:
        what = f"this is a backup of {manifest.source} that was not finished"
        remedy = f"back up again: pyromq store backup {manifest.source.partition(':')[2]} {root}"
        yield StoreFinding(str(root / MANIFEST), 0, what, remedy)


def _state(survey: StoreSurvey) -> str:
    if survey.is_running:
        return "a broker has it open"
    return "stopped in order" if survey.is_clean else "not stopped in order"


def _pieces_of(file: RowFile, piece_bytes: int) -> list[LogPiece] | None:
    try:
        with ReadOnlyFile(file.path) as opened:
            end = opened.last_byte_but_zeros(file.length)
    except FileGone:
        return None
    return [
        LogPiece(file, start, min(start + piece_bytes, end), is_exact=start == 0)
        for start in range(0, end, piece_bytes)
    ]


def _with_keys(pieces: Sequence[LogPiece], index: Sequence[IndexChecked]) -> Iterator[LogPiece]:
    """Give each piece the index entries that point into it; the last has all that point behind it too."""
    for number, piece in enumerate(pieces):
        is_last = number == len(pieces) - 1
        ranges = []
        for file_number, checked in enumerate(index):
            high = checked.entries + 1 if is_last else checked.marks[number + 1]
            if checked.marks[number] < high:
                ranges.append(KeyRange(file_number, checked.marks[number], high))
        yield LogPiece(piece.file, piece.start, piece.stop, piece.is_exact, tuple(ranges))


def _append(runs: list[RunCompared], run: RunCompared) -> None:
    """Add a run, as part of the one before it if it goes on there: a queue is one run when all is well."""
    if not runs or runs[-1].end != run.first or run.first_position < runs[-1].last_position:
        runs.append(run)
        return
    last = runs[-1]
    last.end, last.last_position = run.end, run.last_position
    last.wrong += run.wrong[: KEPT_MAX - len(last.wrong)]
    last.wrong_count += run.wrong_count
    last.beyond += run.beyond[: KEPT_MAX - len(last.beyond)]
    last.beyond_count += run.beyond_count
