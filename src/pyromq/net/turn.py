"""What many links do together once in a turn of the loop: write.

Links that received or want to send something join the turn. When it ends, `may_leave` is asked once, then
every link writes once. It costs one `call_soon` a turn, however many links and frames took part.

`may_leave` is the last look before answers are handed to the system: whether what they say still holds. If
not, none of them leaves, and the links of the turn end: whoever asked hears nothing, rather than something
wrong, and asks again elsewhere. It must not raise.

A turn begins with the first bytes that the loop finds readable. What is handled late in a long turn has
waited since then: `began_at` says so, and `broker/busy.py` what follows from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyromq.net.link import Link

_log = logging.getLogger("pyromq.net")


class Turn:
    """The links of one owner that have something to do when this turn of the loop ends."""

    __slots__ = ("_links", "_may_leave", "began_at")

    def __init__(self, may_leave: Callable[[], bool] | None = None) -> None:
        #: When the first bytes of this turn were read, by the clock of who read them; None: none were yet.
        self.began_at: float | None = None
        self._may_leave = may_leave
        self._links: list[Link] = []

    def begin(self, now: float) -> float:
        """Note that bytes were read, and return when the first of this turn were."""
        if self.began_at is None:
            self.began_at = now
            asyncio.get_running_loop().call_soon(self._forget_begin)
        return self.began_at

    def join(self, link: Link) -> None:
        """Have `link.end_turn` called when the turn ends; a link joins once a turn."""
        if not self._links:
            asyncio.get_running_loop().call_soon(self._end)
        self._links.append(link)

    def _forget_begin(self) -> None:
        # On its own: a turn in which nobody is answered is over, too.
        self.began_at = None

    def _end(self) -> None:
        links, self._links = self._links, []
        if self._may_leave is not None and not self._may_leave():
            _log.warning(
                "answers to %d connections do not hold any more; they are closed instead", len(links)
            )
            for link in links:
                link.abort()
            return
        for link in links:
            link.end_turn()
