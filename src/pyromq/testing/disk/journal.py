"""The journal of a disk's operations, in order, and the part of them that a power cut leaves.

A disk is nodes and names. A node is a file's bytes or a folder's names; a name leads from a folder to a node.
Both change at once for whoever looks, and reach the platter when they are synced: a file's bytes by a sync of
the file, a folder's names by a sync of the folder. Before that, the system may have written them or not, each
for itself and in any order. That is more than most file systems do, and all that POSIX promises.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple


class DiskNode(NamedTuple):
    """A file or a folder: a number that is not used again, and the path it was made with."""

    number: int
    is_folder: bool
    path: str


class Write(NamedTuple):
    """Bytes, written at a place of a file."""

    node: DiskNode
    at: int
    data: bytes


class Resize(NamedTuple):
    """A file's new length; what is added reads as zeros."""

    node: DiskNode
    size: int


class Naming(NamedTuple):
    """Names that changed together: folder, name, and the node it leads to now, or None."""

    changes: tuple[tuple[DiskNode, str, DiskNode | None], ...]


class Sync(NamedTuple):
    """A sync of a file or a folder that succeeded."""

    node: DiskNode


class LostSync(NamedTuple):
    """A sync that failed: no later one writes the bytes that this one should have.

    Names and lengths are kept by the file system itself, and a later sync may still bring them.
    """

    node: DiskNode


class Mark(NamedTuple):
    """A note of the test's own: "from here on this is promised"."""

    value: object


Change = Write | Resize | Naming
Operation = Change | Sync | LostSync | Mark
#: The files of a disk by path; None is a folder.
Image = dict[Path, bytes | None]

ROOT: Final = DiskNode(0, is_folder=True, path="/")


@dataclass(slots=True)
class Platter:
    """The durable content of the disk, and the writes that are on their way there.

    `unsynced` holds the changes that a sync would bring to the platter, `lost` those that a failed sync left
    behind: a power cut may keep any of both.
    """

    #: Bytes that nobody changed yet may be another platter's too; a bytearray is this platter's own.
    contents: dict[DiskNode, bytes | bytearray] = field(default_factory=dict)
    folders: dict[DiskNode, dict[str, DiskNode]] = field(default_factory=lambda: {ROOT: {}})
    unsynced: list[Change] = field(default_factory=list)
    lost: list[Change] = field(default_factory=list)

    def apply(self, operation: Operation) -> None:
        """Take the next operation in."""
        if isinstance(operation, Write | Resize | Naming):
            self.unsynced.append(operation)
        elif isinstance(operation, Sync):
            due = [change for change in self.unsynced if operation.node in nodes_of(change)]
            self.unsynced = [change for change in self.unsynced if operation.node not in nodes_of(change)]
            _carry_out(due, self.contents, self.folders)
            self.lost = [change for change in self.lost if not any(_covers(new, change) for new in due)]
        elif isinstance(operation, LostSync):
            lost = [
                change
                for change in self.unsynced
                if isinstance(change, Write) and change.node == operation.node
            ]
            self.lost += lost
            self.unsynced = [change for change in self.unsynced if change not in lost]

    @property
    def pending(self) -> list[Change]:
        """Everything that a power cut may keep or lose, in the order it was done."""
        return [*self.lost, *self.unsynced]

    def copy(self) -> "Platter":
        """Return a platter that goes its own way."""
        folders = {node: dict(names) for node, names in self.folders.items()}
        contents: dict[DiskNode, bytes | bytearray] = {
            node: bytes(data) for node, data in self.contents.items()
        }
        return Platter(contents, folders, list(self.unsynced), list(self.lost))

    def image(self, kept: Iterable[Change] = ()) -> Image:
        """Return the files that are there after a power cut that kept these changes of the pending ones."""
        changes = list(kept)
        contents = dict(self.contents)
        for change in changes:
            if not isinstance(change, Naming) and change.node in contents:
                contents[change.node] = bytes(contents[change.node])
        folders = {node: dict(names) for node, names in self.folders.items()}
        _carry_out(changes, contents, folders)
        return dict(_walk(ROOT, Path("/"), contents, folders))


def nodes_of(change: Change) -> tuple[DiskNode, ...]:
    """Return the nodes whose sync brings a change to the platter."""
    if isinstance(change, Naming):
        return tuple(folder for folder, _, _ in change.changes)
    return (change.node,)


def _covers(new: Change, old: Change) -> bool:
    """Return whether a change on the platter makes an older one, of the same node, count for nothing."""
    if isinstance(new, Write) and isinstance(old, Write):
        return new.node == old.node and new.at < old.at + len(old.data) and old.at < new.at + len(new.data)
    return bool(set(nodes_of(new)) & set(nodes_of(old)))


def _carry_out(
    changes: Iterable[Change],
    contents: dict[DiskNode, bytes | bytearray],
    folders: dict[DiskNode, dict[str, DiskNode]],
) -> None:
    for change in changes:
        if isinstance(change, Naming):
            for folder, name, node in change.changes:
                names = folders.setdefault(folder, {})
                if node is None:
                    names.pop(name, None)
                else:
                    names[name] = node
            continue
        content = contents.get(change.node, b"")
        if not isinstance(content, bytearray):
            content = contents[change.node] = bytearray(content)
        if isinstance(change, Resize):
            del content[change.size :]
            content += bytes(change.size - len(content))
        else:
            content += bytes(max(change.at + len(change.data) - len(content), 0))
            content[change.at : change.at + len(change.data)] = change.data


def _walk(
    folder: DiskNode,
    path: Path,
    contents: dict[DiskNode, bytes | bytearray],
    folders: dict[DiskNode, dict[str, DiskNode]],
) -> Iterator[tuple[Path, bytes | None]]:
    for name, node in folders.get(folder, {}).items():
        if node.is_folder:
            yield path / name, None
            yield from _walk(node, path / name, contents, folders)
        else:
            yield path / name, bytes(contents.get(node, b""))
