"""The epoch file: the part of the log that each master wrote, one line for each change of master.

    {root}/epochFileCheckpoint
        2               how many lines follow
        1417498193      CRC-32 of them, without its highest bit
        7-0             epoch 7 wrote the log from position 0 on,
        8-73400         and epoch 8 from position 73400 on

The file is RocketMQ 5's (EpochFileCache.java, CheckpointFile.java). Epochs and positions rise from line to
line. Two logs with the same line have the same bytes from its position on, up to where either goes over to
another epoch or ends: an epoch has one master, and a log is copied from its beginning. So the newest line
that two replicas share tells how far they agree, and nothing has to be compared byte by byte.

An epoch that wrote nothing leaves no line once the next one begins where it began. A line stays when the
files of its messages go: it costs some bytes, and a replica that comes back after a long time may need it.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from pyromq.errors import StoreError
from pyromq.store.atomic_file import read_with_backup, replace_file
from pyromq.store.files import Files

FILE_NAME: Final = "epochFileCheckpoint"
_CRC_MASK: Final = 0x7FFFFFFF


class Epoch(NamedTuple):
    """The part of the log that one master wrote: from `start` to the next one's."""

    epoch: int
    start: int


class Epochs:
    """The epochs of one log, oldest first, and the file that holds them."""

    __slots__ = ("_files", "_path", "entries")

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self.entries: tuple[Epoch, ...] = ()

    def load(self) -> None:
        """Read the file; without one there are no epochs. Raises CorruptRecord when it does not read."""
        self.entries = read_with_backup(self._path, decode_epochs, files=self._files) or ()

    def save(self) -> None:
        """Replace the file; when this returns, the new one survives a power cut."""
        replace_file(self._path, encode_epochs(self.entries), files=self._files)

    @property
    def last(self) -> Epoch | None:
        """The newest epoch, None when there is none."""
        return self.entries[-1] if self.entries else None

    def append(self, epoch: int, start: int) -> None:
        """Begin an epoch where the log ends now, and save; one that is the newest already is left so.

        Epochs that begin there or later wrote nothing that this log has, and go. Raises StoreError for an
        epoch that is not newer than those before it.
        """
        if self.last == (epoch, start):
            return
        kept = tuple(entry for entry in self.entries if entry.start < start)
        if kept and kept[-1].epoch >= epoch:
            raise StoreError(
                f"epoch {epoch} cannot begin at {start}: the log there is of epoch {kept[-1].epoch}"
            )
        self.entries = (*kept, Epoch(epoch, start))
        self.save()

    def cut(self, position: int) -> None:
        """Forget the epochs that begin at a position or behind it, and save.

        Call it with the log's end whenever another log is about to be followed: an epoch of which not a byte
        came must not be taken for the owner of what comes now. A log that is to be cut is cut before its
        epochs are, so that no byte is ever counted to an epoch that did not write it.
        """
        kept = tuple(entry for entry in self.entries if entry.start < position)
        if kept != self.entries:
            self.entries = kept
            self.save()

    def common_end(self, theirs: Sequence[Epoch], their_end: int, own_end: int) -> int | None:
        """Return up to where this log and another are the same, None when they share no epoch.

        The ends are those of the two logs; what is said of epochs behind them does not count.
        """
        own_spans, their_spans = _spans(self.entries, own_end), _spans(theirs, their_end)
        for entry in sorted(own_spans.keys() & their_spans.keys(), reverse=True):
            return min(own_spans[entry], their_spans[entry])
        return None


def _spans(entries: Sequence[Epoch], log_end: int) -> dict[Epoch, int]:
    """Return where the part of each epoch ends that a log really has."""
    ends = [*(entry.start for entry in entries[1:]), log_end]
    return (
        {
            Epoch(*entry): min(end, log_end)
            for entry, end in zip(entries, ends, strict=True)
            if entry[1] <= log_end
        }
        if entries
        else {}
    )


def encode_epochs(entries: Sequence[Epoch]) -> bytes:
    """Return the bytes of the file."""
    lines = "".join(f"{epoch}-{start}\n" for epoch, start in entries).encode()
    return b"%d\n%d\n%s" % (len(entries), crc32(lines) & _CRC_MASK, lines)


def decode_epochs(data: bytes) -> tuple[Epoch, ...]:
    """Return what a file says; raise ValueError when it is damaged."""
    count, crc, *lines = data.decode("ascii").split("\n")
    while lines and not lines[-1]:
        lines.pop()
    text = "".join(f"{line}\n" for line in lines).encode()
    # RocketMQ does not look at a checksum of 0.
    if int(crc) not in (0, crc32(text) & _CRC_MASK):
        raise ValueError(f"its lines have the checksum {crc32(text) & _CRC_MASK}, and it says {crc}")
    entries = tuple(_decode_line(line) for line in lines)
    if len(entries) != int(count):
        raise ValueError(f"it has {len(entries)} epochs, and says {count}")
    if any(a.epoch >= b.epoch or a.start >= b.start for a, b in pairwise(entries)):
        raise ValueError(f"its epochs do not rise: {lines}")
    return entries


def _decode_line(line: str) -> Epoch:
    epoch, start = line.split("-")
    return Epoch(int(epoch), int(start))
