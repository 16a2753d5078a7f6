"""The files of the replicas when all processes are gone: each log must be the master's, byte for byte."""

import re
from collections.abc import Iterator
from pathlib import Path

#: Epoch and begin; a checksum and a count stand before the entries.
_ENTRY = re.compile(r"^(\d+)-(\d+)$", re.MULTILINE)


def compare_logs(master: Path, replica: Path) -> Iterator[str]:
    """Complain where a replica's log is no prefix of the master's.

    A replica may begin later than its master, at the begin of a file, and end earlier; behind its end it has
    nothing but zeros.
    """
    ours, theirs = _log_files(replica), _log_files(master)
    first, last = min(ours, default=""), max((name for name in ours if _end(ours[name])), default="")
    for name in sorted(ours.keys() | theirs.keys()):
        if name < first or name > last:
            # Made in advance, or not copied yet: whatever is there must be empty.
            if name in ours and _end(ours[name]):
                yield f"diverged: {ours[name]} is not empty"
            continue
        if name not in ours or name not in theirs:
            who = replica if name not in ours else master
            yield f"diverged: {who} has no file {name}"
            continue
        yield from _compare(theirs[name], ours[name], is_last=name == last)


def _log_files(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in (folder / "commitlog").iterdir() if path.name.isdigit()}


def _end(path: Path) -> int:
    """Return where the last byte is that is not zero."""
    return len(path.read_bytes().rstrip(b"\0"))


def _compare(master: Path, replica: Path, *, is_last: bool) -> Iterator[str]:
    theirs, ours = master.read_bytes(), replica.read_bytes()
    if len(theirs) != len(ours):
        yield f"diverged: {replica} has {len(ours)} bytes, {master} has {len(theirs)}"
    upto = _end(replica) if is_last else min(len(theirs), len(ours))
    if theirs[:upto] == ours[:upto]:
        return
    at = next(at for at in range(upto) if theirs[at : at + 1] != ours[at : at + 1])
    yield f"diverged: {replica} differs from {master} at {int(replica.name) + at} (byte {at} of the file)"


def lag_bytes(master: Path, replica: Path) -> int:
    """Return how many bytes of the master's log a replica does not have."""
    return max(0, log_end(master) - log_end(replica))


def log_end(folder: Path) -> int:
    """Return where a log ends, as far as its bytes tell."""
    return max((int(name) + _end(path) for name, path in _log_files(folder).items() if _end(path)), default=0)


def read_epochs(folder: Path) -> list[tuple[int, int]]:
    """Return the epochs that a broker's folder tells of, oldest first."""
    path = folder / "epochFileCheckpoint"
    if not path.exists():
        return []
    return sorted((int(epoch), int(start)) for epoch, start in _ENTRY.findall(path.read_text()))
