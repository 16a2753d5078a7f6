"""What many links do together once in a turn of the loop: write.

Links that received or want to send something join the turn. When it ends, `before_write` runs once (the seam
for work that must be done before answers leave, such as appending what a whole turn collected; it must not
raise, because without it no answer may leave), then every link writes once. It costs one `call_soon` a turn,
however many links and frames took part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyromq.net.link import Link


class Turn:
    """The links of one owner that have something to do when this turn of the loop ends."""

    __slots__ = ("_before_write", "_links")

    def __init__(self, before_write: Callable[[], None] | None = None) -> None:
        self._before_write = before_write
        self._links: list[Link] = []

    def join(self, link: Link) -> None:
        """Have `link.end_turn` called when the turn ends; a link joins once a turn."""
        if not self._links:
            asyncio.get_running_loop().call_soon(self._end)
        self._links.append(link)

    def _end(self) -> None:
        links, self._links = self._links, []
        if self._before_write is not None:
            self._before_write()
        for link in links:
            link.end_turn()
