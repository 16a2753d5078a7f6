"""The shortcuts of requests that store nothing, one behind the other: pulls, and offsets.

    [pull]              pulls
    [commit, pull]      pulls (nothing), offsets, pulls
    [commit, commit]    pulls (nothing), offsets

Pulls are held up by pressure. Offsets are not, as on the long way: they are offered whatever became of the
pulls.
"""

from collections.abc import Callable, Sequence

from pyromq.net.link import Link
from pyromq.net.turn import Shortcut


class ReadShortcuts:
    """Offers what links received to the shortcut of pulls and to that of offsets.

    `may_pull` returns the links whose pulls are taken now. A link with `under_way_max` requests under way is
    left to Python, which refuses the next one.
    """

    def __init__(
        self,
        pulls: Shortcut | None,
        offsets: Shortcut | None,
        *,
        may_pull: Callable[[Sequence[Link]], Sequence[Link]],
        under_way_max: int,
    ) -> None:
        self._pulls = pulls
        self._offsets = offsets
        self._may_pull = may_pull
        self._under_way_max = under_way_max

    def __call__(self, links: Sequence[Link]) -> bool:
        """Handle what is at the front of what links received; return whether there was something."""
        links = self._left(links)
        if not links:
            return False
        has_handled = self._pull(links)
        if has_handled:
            links = self._left(links)
        if links and self._offsets is not None and self._offsets(links):
            has_handled = True
            # Who commits pulls next.
            self._pull(self._left(links))
        return has_handled

    def _pull(self, links: Sequence[Link]) -> bool:
        if self._pulls is None or not links:
            return False
        taken = self._may_pull(links)
        return bool(taken) and self._pulls(taken)

    def _left(self, links: Sequence[Link]) -> Sequence[Link]:
        most = self._under_way_max
        return [link for link in links if link.pending_bytes and link.under_way_count < most]
