"""What many links do together once in a turn of the loop: write.

Links that received or want to send something join the turn. When it ends, `may_leave` is asked once, then
every link writes once. It costs one `call_soon` a turn, however many links and frames took part.

`may_leave` is the last look before answers are handed to the system: whether what they say still holds. If
not, none of them leaves, and the links of the turn end: whoever asked hears nothing, rather than something
wrong, and asks again elsewhere. It must not raise.

A turn begins with the first bytes that the loop finds readable. What is handled late in a long turn has
waited since then, and what is read in the next one may have come while the long one lasted: `begin` tells
since when, and `broker/busy.py` what follows from it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyromq.net.link import Link

#: Seconds between two turns after which the loop had nothing to read.
IDLE_S: Final = 0.005

_log = logging.getLogger("pyromq.net")


class Turn:
    """The links of one owner that have something to do when this turn of the loop ends."""

    __slots__ = ("_ended_at", "_links", "_looked_at", "_may_leave", "_monotonic", "began_at")

    def __init__(
        self, may_leave: Callable[[], bool] | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        #: When the first bytes of this turn were read; None: none were yet.
        self.began_at: float | None = None
        self._monotonic = monotonic
        #: When the turn before began, if this one followed at once, else when this one did.
        self._looked_at = self._ended_at = 0.0
        self._may_leave = may_leave
        self._links: list[Link] = []

    def begin(self, now: float) -> float:
        """Note that bytes were read, and return since when they may have been there to be read."""
        if self.began_at is None:
            if now - self._ended_at > IDLE_S:
                self._looked_at = now
            self.began_at = now
            asyncio.get_running_loop().call_soon(self._over)
        return self._looked_at

    def join(self, link: Link) -> None:
        """Have `link.end_turn` called when the turn ends; a link joins once a turn."""
        if not self._links:
            asyncio.get_running_loop().call_soon(self._end)
        self._links.append(link)

    def _over(self) -> None:
        # On its own: a turn in which nobody is answered is over, too.
        self._looked_at = self.began_at or 0.0
        self._ended_at = self._monotonic()
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
