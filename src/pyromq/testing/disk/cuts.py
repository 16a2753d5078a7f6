"""The states that a power cut or a kill can leave, as many of them as one has time for.

Of *n* changes that were not synced, two to the power of *n* combinations may have reached the platter, and a
write may have reached it in part. Tried are those in which mistakes hide: nothing kept, everything kept, each
change alone, each change missing, a write torn; and then as many random ones as are asked for.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyromq.testing.disk.journal import Change, Image, Mark, Naming, Operation, Platter, Resize, Write

#: Where a write tears: at any byte, at a sector of the disk, at a page of the cache.
TEAR_BYTES: Final = (1, 512, 4096)
#: No system copies less at once to a place that is a multiple of it.
_WORD_BYTES: Final = 4
#: Says of a write where it tears.
TearsAt = Callable[[Write], Sequence[int]]


def tears_anywhere(write: Write) -> Sequence[int]:
    """Return that a write tears at any byte, which is worse than disks do: they write sectors whole."""
    return TEAR_BYTES


def tears_at_sectors(write: Write) -> Sequence[int]:
    """Return that a write tears between the sectors of a disk."""
    return TEAR_BYTES[1:]


@dataclass(frozen=True, slots=True)
class Cut:
    """One state: after how many operations the power failed, what was kept, and what had been marked."""

    at: int
    story: str
    image: Image
    marks: Sequence[object]


def cuts_of(
    operations: Iterable[Operation],
    chance: random.Random,
    *,
    base: Platter | None = None,
    each_max: int | None = None,
    random_cuts: int = 3,
    tears_at: TearsAt = tears_anywhere,
) -> Iterator[Cut]:
    """Yield states for a power cut at every moment of a journal, none twice between two marks.

    At each moment at most `each_max` states are drawn from the systematic ones (all when it is None), and
    `random_cuts` random ones come on top. Without `base` the disk was empty at the beginning.
    """
    platter = base.copy() if base is not None else Platter()
    marks: list[object] = []
    seen: set[frozenset[tuple[str, bytes | None]]] = set()
    for at, operation in enumerate(operations):
        platter.apply(operation)
        if isinstance(operation, Mark):
            marks.append(operation.value)
            seen.clear()
        choices = list(_systematic(platter.pending, tears_at))
        if each_max is not None and len(choices) > each_max:
            choices = chance.sample(choices, each_max)
        choices += [kept_operations(platter.pending, chance, tears_at) for _ in range(random_cuts)]
        for kept in choices:
            image = platter.image(kept.changes)
            what = frozenset((str(path), data) for path, data in image.items())
            if what not in seen:
                seen.add(what)
                yield Cut(at + 1, kept.story, image, tuple(marks))


def kills_of(operations: Iterable[Operation], *, base: Platter | None = None) -> Iterator[Cut]:
    """Yield what the next process finds when this one is killed, at every moment of a journal.

    All that was done before is there. Of the write that it was in the middle of a beginning is: here up to
    any word, while a system copies pages whole.
    """
    platter = base.copy() if base is not None else Platter()
    marks: list[object] = []
    for at, operation in enumerate(operations):
        if isinstance(operation, Write) and not _is_whole(operation):
            for size in range(_WORD_BYTES - operation.at % _WORD_BYTES, len(operation.data), _WORD_BYTES):
                begun = operation._replace(data=operation.data[:size])
                image = platter.image([*platter.pending, begun])
                yield Cut(at, f"the first {size} bytes of {_tell(operation)}", image, tuple(marks))
        platter.apply(operation)
        if isinstance(operation, Mark):
            marks.append(operation.value)
        yield Cut(at + 1, "everything kept", platter.image(platter.pending), tuple(marks))


@dataclass(frozen=True, slots=True)
class Kept:
    """A choice among changes, and how to tell it."""

    story: str
    changes: list[Change]


def kept_operations(
    pending: Sequence[Change], chance: random.Random, tears_at: TearsAt = tears_anywhere
) -> Kept:
    """Return a random choice; now and then a write is kept in part."""
    share = chance.choice((0.1, 0.5, 0.9))
    kept: list[Change] = []
    lost = torn = 0
    for change in pending:
        if chance.random() >= share:
            lost += 1
        elif isinstance(change, Write) and not _is_whole(change) and chance.random() < 0.25:
            torn += 1
            kept += _pieces(change, chance, chance.choice(tears_at(change)))
        else:
            kept.append(change)
    return Kept(f"of {len(pending)} changes {lost} lost and {torn} torn at random", kept)


def _systematic(pending: Sequence[Change], tears_at: TearsAt) -> Iterator[Kept]:
    yield Kept("nothing unsynced kept", [])
    if not pending:
        return
    yield Kept("everything kept", list(pending))
    for number, change in enumerate(pending):
        what = _tell(change)
        others = [*pending[:number], *pending[number + 1 :]]
        yield Kept(f"only kept: {what}", [change])
        yield Kept(f"all kept but {what}", others)
        if isinstance(change, Write):
            for tear_bytes in tears_at(change):
                for story, part in _halves(change, tear_bytes):
                    yield Kept(
                        f"all kept, {story} of {what}", [*pending[:number], part, *pending[number + 1 :]]
                    )


def _halves(write: Write, tear_bytes: int) -> Iterator[tuple[str, Write]]:
    """Yield the first and the second part of a write, torn in its middle at a multiple of `tear_bytes`."""
    if _is_whole(write):
        return
    middle = write.at + len(write.data) // 2
    tear = middle - middle % tear_bytes
    if not write.at < tear < write.at + len(write.data):
        return
    at = tear - write.at
    yield f"the first {at} bytes", Write(write.node, write.at, write.data[:at])
    yield f"all but the first {at} bytes", Write(write.node, tear, write.data[at:])


def _is_whole(write: Write) -> bool:
    """Return whether a write is a number at its natural place, which no disk and no memory tears."""
    return len(write.data) in (1, 2, 4, 8) and write.at % len(write.data) == 0


def _pieces(write: Write, chance: random.Random, tear_bytes: int) -> list[Change]:
    """Return some of the pieces of a write: at one byte two, at sectors or pages many."""
    if tear_bytes == 1:
        cut = chance.randrange(len(write.data) + 1)
        if chance.random() < 0.5:
            return [Write(write.node, write.at, write.data[:cut])]
        return [Write(write.node, write.at + cut, write.data[cut:])]
    pieces: list[Change] = []
    at = write.at
    while at < write.at + len(write.data):
        end = min(at - at % tear_bytes + tear_bytes, write.at + len(write.data))
        if chance.random() < 0.5:
            pieces.append(Write(write.node, at, write.data[at - write.at : end - write.at]))
        at = end
    return pieces


def _tell(change: Change) -> str:
    if isinstance(change, Naming):
        names = [
            f"{name} in {folder.path} is {node and node.number}" for folder, name, node in change.changes
        ]
        return "that " + " and ".join(names)
    if isinstance(change, Resize):
        return f"the new length {change.size} of {change.node.path}"
    return f"the write of {len(change.data)} bytes at {change.at} of {change.node.path}"
