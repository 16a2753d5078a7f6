"""Commits and queries of offsets without Python objects: the compiled kernel between a link and the table.

Where Python answered a commit or a query, the kernel gets the offsets of that group in that topic, the
table's own, and answers the next ones for the same queue. It stops at the first frame that is anything else:
a group or queue without progress, a commit that goes back. When offsets leave the table, it forgets them all.
"""

from typing import TYPE_CHECKING, Final

from pyromq.broker.groups.offsets import OffsetTable
from pyromq.broker.requests.answer_parts import binary_parts, json_parts
from pyromq.codes import VERSION, Language
from pyromq.net.link import Link

if TYPE_CHECKING:
    from pyromq._kernel.requests.offsets import Offsets

#: Queues that are known at a time, of all groups; each takes some hundred bytes.
PLACES_MAX: Final = 100_000
#: The kernel compares no longer keys (PLACE_BYTES_MAX in place_keys.pxd).
KEY_BYTES_MAX: Final = 1_024


class FastOffsets:
    """Offers received bytes to the kernel, and teaches it queues. `take` is a shortcut of links.

    Without `takes_commits` it answers queries only: a slave notes each commit for its master.
    """

    def __init__(self, offsets: "Offsets", table: OffsetTable, *, takes_commits: bool) -> None:
        self._offsets = offsets
        self._table = table
        self._takes_commits = takes_commits
        self._revision = table.revision

    def take(self, links: list[Link]) -> bool:
        """Answer the commits and queries at the front of what links received; return whether one was."""
        if self._forget_if_changed() or not self._offsets.plan_count:
            return False
        count, changed = self._offsets.answer(links)
        if changed:
            self._table.changed(changed)
        return count > 0

    def learn(self, group: str, topic: str, queue_id: int) -> None:
        """Let the kernel have the next commits and queries for a queue whose progress is known."""
        self._forget_if_changed()
        offsets = self._table.kept(group, topic)
        key = f"{group}\0{topic}\0{queue_id}\0"
        if offsets is None or queue_id not in offsets or not key.isascii():
            return
        if len(key) > KEY_BYTES_MAX or key.count("\0") != 3:
            return
        if self._offsets.plan_count >= PLACES_MAX:
            self._offsets.forget_all()
        name = self._table.name_of(group, topic)
        self._offsets.learn(key.encode(), offsets, queue_id, name, takes_commits=self._takes_commits)

    def _forget_if_changed(self) -> bool:
        """Forget everything when offsets have left the table; return whether they have."""
        if self._revision == self._table.revision:
            return False
        self._revision = self._table.revision
        self._offsets.forget_all()
        return True


def make_offsets() -> "Offsets":
    """Return the kernel's part."""
    # Only now: without a compiler there is nothing to import.
    from pyromq._kernel.requests.offsets import Offsets

    return Offsets(
        commit_parts=json_parts({}),
        commit_binary_parts=binary_parts({}),
        query_parts=json_parts({"offset": None}),
        query_binary_parts=binary_parts({"offset": None}),
        language=int(Language.JAVA),
        version=VERSION,
    )
