"""The manifest of an archive: its files, and the messages of each.

    orders-archive/
        _manifest/0000000001.json      what the first commit added; commits are numbered, and never changed
        _manifest/0000000002.json
        orders/broker-a/0/0-50000-4f1c….parquet

A commit is one file that appears whole or not at all. Parquet files that no commit names do not exist:
whoever wrote them did not get as far. So a job that is killed at any moment leaves an archive that is right,
and the next one goes on where the commits end.

The ranges of a queue never overlap: a commit that repeats a message is refused, when it is made and when it
is read. What lies between two ranges is a *gap*, and must be named as one, with the reason.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyromq.errors import PyroError
from pyromq.model import MessageQueue
from pyspark_rocketmq.cold.folder import ArchiveFolder, FolderTaken

VERSION: Final = 1
COMMITS: Final = "_manifest"


class ArchiveFault(PyroError):
    """An archive is not what it should be, or cannot be gone on with; the text says what to do."""


@dataclass(frozen=True, slots=True, order=True)
class ArchivedFile:
    """A file with the messages of one queue from `start` up to, not including, `end`, in order.

    `crc32` is the checksum of the file itself, `checksums` are those of its columns. `last_id` is the last
    message's id: whether a queue is still the one that was archived is told by it.
    """

    queue: MessageQueue
    start: int
    end: int
    path: str = field(compare=False)
    size_bytes: int = field(compare=False)
    crc32: str = field(compare=False)
    first_stored_ms: int = field(compare=False)
    last_stored_ms: int = field(compare=False)
    last_id: str = field(compare=False)
    checksums: Mapping[str, str] = field(compare=False, hash=False)

    @property
    def row_count(self) -> int:
        """The number of messages."""
        return self.end - self.start

    def to_json(self) -> dict[str, Any]:
        """Return it as a commit has it."""
        return {
            **_queue_json(self.queue),
            "start": self.start,
            "end": self.end,
            "path": self.path,
            "bytes": self.size_bytes,
            "crc32": self.crc32,
            "first_stored_ms": self.first_stored_ms,
            "last_stored_ms": self.last_stored_ms,
            "last_id": self.last_id,
            "checksums": dict(self.checksums),
        }


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    """Messages that were gone before they were archived."""

    queue: MessageQueue
    start: int
    end: int
    why: str = field(compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return it as a commit has it."""
        return {**_queue_json(self.queue), "start": self.start, "end": self.end, "why": self.why}


Piece = ArchivedFile | Gap


class ArchiveManifest:
    """All commits of an archive, taken together."""

    def __init__(self, folder: ArchiveFolder) -> None:
        self.folder = folder
        self.commit_count = 0
        self._pieces: dict[MessageQueue, list[Piece]] = {}

    @classmethod
    def load(cls, folder: ArchiveFolder) -> "ArchiveManifest":
        """Read an archive; a folder without commits is an empty one."""
        manifest = cls(folder)
        for number, name in enumerate(folder.names(COMMITS), 1):
            if name != _commit_name(number):
                raise ArchiveFault(
                    f"{folder.uri}: commit {_commit_name(number)} is missing, and {name} is there; put the "
                    "file back from a copy"
                )
            manifest._take_in(*_read_commit(folder, f"{COMMITS}/{name}"))
            manifest.commit_count = number
        return manifest

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that something is archived of, sorted."""
        return sorted(self._pieces)

    def files(self, queue: MessageQueue | None = None) -> list[ArchivedFile]:
        """Return the files of a queue, or of all, in the order of their messages."""
        queues = self.queues if queue is None else [queue]
        return [
            piece for one in queues for piece in self._pieces.get(one, ()) if isinstance(piece, ArchivedFile)
        ]

    def gaps(self) -> list[Gap]:
        """Return what could not be archived."""
        return [piece for one in self.queues for piece in self._pieces[one] if isinstance(piece, Gap)]

    def start(self, queue: MessageQueue) -> int | None:
        """Return the first offset that is archived of a queue, or None."""
        files = self.files(queue)
        return files[0].start if files else None

    def end(self, queue: MessageQueue) -> int | None:
        """Return the offset behind the last that is archived, or noted as a gap; None when there is none."""
        pieces = self._pieces.get(queue)
        return pieces[-1].end if pieces else None

    def commit(self, files: Sequence[ArchivedFile], gaps: Sequence[Gap] = ()) -> None:
        """Add files, all or none; raise ArchiveFault if another job was faster, or one were twice."""
        ArchiveManifest._copy_of(self)._take_in(files, gaps)
        number = self.commit_count + 1
        content = {
            "version": VERSION,
            "files": [one.to_json() for one in files],
            "gaps": [one.to_json() for one in gaps],
        }
        name = f"{COMMITS}/{_commit_name(number)}"
        try:
            self.folder.create(name, json.dumps(content, indent=1).encode() + b"\n")
        except FolderTaken as error:
            raise ArchiveFault(
                f"{self.folder.uri}: another job has added to this archive meanwhile; run this one again, "
                "alone"
            ) from error
        self._take_in(files, gaps)
        self.commit_count = number

    def _copy_of(self) -> "ArchiveManifest":
        copy = ArchiveManifest(self.folder)
        copy._pieces = {queue: list(pieces) for queue, pieces in self._pieces.items()}
        return copy

    def _take_in(self, files: Iterable[ArchivedFile], gaps: Iterable[Gap]) -> None:
        pieces: list[Piece] = [*files, *gaps]
        for piece in sorted(pieces, key=lambda one: (one.queue, one.start)):
            queue, end = piece.queue, self.end(piece.queue)
            where = f"{self.folder.uri}: queue {queue.queue_id} of {queue.topic} on {queue.broker_name}"
            if piece.end <= piece.start:
                raise ArchiveFault(f"{where}: a range from {piece.start} to {piece.end} is none")
            if end is not None and piece.start < end:
                raise ArchiveFault(
                    f"{where}: messages {piece.start} to {min(end, piece.end) - 1} would be there twice"
                )
            if end is not None and piece.start > end:
                raise ArchiveFault(
                    f"{where}: messages {end} to {piece.start - 1} are missing, and not noted as a gap"
                )
            self._pieces.setdefault(queue, []).append(piece)


def _commit_name(number: int) -> str:
    return f"{number:010d}.json"


def _read_commit(folder: ArchiveFolder, name: str) -> tuple[list[ArchivedFile], list[Gap]]:
    try:
        content = json.loads(folder.read(name))
        if content["version"] != VERSION:
            raise ArchiveFault(
                f"{folder.uri}/{name} is of version {content['version']}, and this program reads {VERSION}: "
                "use a newer one"
            )
        return [_file_of(one) for one in content["files"]], [_gap_of(one) for one in content["gaps"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ArchiveFault(
            f"{folder.uri}/{name} does not read: {error!r}; put it back from a copy"
        ) from error


def _file_of(record: Mapping[str, Any]) -> ArchivedFile:
    return ArchivedFile(
        _queue_of(record),
        record["start"],
        record["end"],
        record["path"],
        record["bytes"],
        record["crc32"],
        record["first_stored_ms"],
        record["last_stored_ms"],
        record["last_id"],
        record["checksums"],
    )


def _gap_of(record: Mapping[str, Any]) -> Gap:
    return Gap(_queue_of(record), record["start"], record["end"], record["why"])


def _queue_of(record: Mapping[str, Any]) -> MessageQueue:
    return MessageQueue(record["topic"], record["broker"], record["queue"])


def _queue_json(queue: MessageQueue) -> dict[str, Any]:
    return {"topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id}
