"""The shortcuts of requests that store nothing, one behind the other: pulls, and offsets.

    [pull]              pulls
    [commit, pull]      pulls (nothing), offsets, pulls
    [commit, commit]    pulls (nothing), offsets

Pulls are held up by pressure. Offsets are not, as on the long way: they are offered whatever became of the
pulls.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyromq.kernel import IS_COMPILED
from pyromq.net.link import Link
from pyromq.net.turn import Shortcut

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.net.inlet import with_bytes
else:
    from pyromq._kernel.codec.inlets import with_bytes


class ReadShortcuts:
    """Offers what links received to the shortcut of pulls and to that of offsets.

    It is given links with bytes left and fewer than `under_way_max` requests under way: the others are left
    to Python, which refuses their next one. `may_pull` returns the links whose pulls are taken now.
    """

    def __init__(
        self,
        pulls: Shortcut | None,
        offsets: Shortcut | None,
        *,
        may_pull: Callable[[list[Link]], list[Link]],
        under_way_max: int,
    ) -> None:
        self._pulls = pulls
        self._offsets = offsets
        self._may_pull = may_pull
        self._under_way_max = under_way_max

    def __call__(self, links: list[Link]) -> bool:
        """Handle what is at the front of what links received; return whether there was something."""
        has_handled = self._pull(links)
        if has_handled:
            links = with_bytes(links, self._under_way_max)
        if links and self._offsets is not None and self._offsets(links):
            has_handled = True
            # Who commits pulls next.
            self._pull(with_bytes(links, self._under_way_max))
        return has_handled

    def _pull(self, links: list[Link]) -> bool:
        if self._pulls is None or not links:
            return False
        taken = self._may_pull(links)
        return bool(taken) and self._pulls(taken)
