"""Progress that clients brought to a slave because its master was gone; that is told when it is back."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pyromq.broker.groups.offsets import SEPARATOR


class Commit(NamedTuple):
    """The offset that a group reads next."""

    group: str
    topic: str
    queue_id: int
    offset: int

    @property
    def key(self) -> str:
        """The key of the group's progress in a table of offsets."""
        return f"{self.topic}{SEPARATOR}{self.group}"


class CommittedHere:
    """The offsets that clients committed at a slave and its master may not know."""

    def __init__(self) -> None:
        self._commits: dict[tuple[str, int], Commit] = {}

    def __len__(self) -> int:
        return len(self._commits)

    def __iter__(self) -> Iterator[Commit]:
        return iter(tuple(self._commits.values()))

    def note(self, commit: Commit) -> None:
        """Note what a client committed here."""
        self._commits[commit.key, commit.queue_id] = commit

    def ahead_of(self, master: Mapping[str, Mapping[int, int]]) -> list[Commit]:
        """Return what is ahead of the master's progress, and forget what is not: it knows better."""
        ahead = []
        for commit in self:
            if commit.offset > master.get(commit.key, {}).get(commit.queue_id, -1):
                ahead.append(commit)
            else:
                self.forget(commit)
        return ahead

    def forget(self, commit: Commit) -> None:
        """Forget what the master knows now, unless there is a newer one already."""
        place = commit.key, commit.queue_id
        if self._commits.get(place) == commit:
            del self._commits[place]
