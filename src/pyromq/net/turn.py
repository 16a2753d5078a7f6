"""The end of a turn of the loop: one ordered list of what happens then, for all links together.

    bytes are read, requests are handled, the log is written      during the turn
    0. `shortcut` handles what noted links received, for all of   when it ends, and before, each
       them at once; what it leaves, each link handles            time that they received much
    1. each step that is due, in the order of the steps
    2. `may_leave`: do the answers still hold?
    3. every link that joined writes once, and takes up the frames that it had left over

A turn begins with the first bytes that the loop finds readable, and ends when the loop has called everything
that was ready. Whoever has something to do then marks its `TurnStep` as due, or joins with its link. The
first of them plans the end; it is one `call_soon` for a turn, however many links and frames took part. A step
that finds more to do marks itself again, and runs in the next turn. A server's owner makes its steps in one
place (`broker/end_of_turn.py`), so their order can be read there. What is done at the end of every turn is in
`net/inlet.py`, and compiled; what is seldom done is here.

`may_leave` is the last look before answers are handed to the system: whether what they say still holds. If
not, none of them leaves, and the links of the turn end: whoever asked hears nothing rather than something
wrong, and asks again elsewhere. It must not raise.

A request that is handled late in a long turn has waited since the turn began. What is read in the next turn
may have arrived while the long one lasted. `begin` returns since when; whether that was too long is decided
in `broker/durability/acknowledgement.py`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyromq.kernel import IS_COMPILED

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.net.inlet import TurnInlets
else:
    from pyromq._kernel.codec.inlets import TurnInlets

if TYPE_CHECKING:
    from pyromq.net.link import Link

#: Handles frames at the front of what links received; returns whether there was one. The list stays as it is.
Shortcut = Callable[[list["Link"]], bool]

_log = logging.getLogger("pyromq.net")


class TurnStep:
    """One of the things that happen when a turn ends. `run` is called then, if it is due."""

    __slots__ = ("_turn", "is_due", "run", "withholds")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        #: Whether no answer may leave while it is due.
        self.withholds = False
        self.is_due = False
        self.run: Callable[[], None] = _nothing

    def due(self) -> None:
        """Have `run` called when this turn ends; from within the end of a turn, when the next one ends."""
        if not self.is_due:
            self.is_due = self._turn.has_due_steps = True
            self._turn.plan_end()

    def write_now(self) -> None:
        """Let the answers that are ready leave before this turn ends, unless a due step withholds them.

        Whether they still hold is looked at by the caller, and again for the others when the turn ends.
        """
        self._turn.write_now()


class Turn(TurnInlets):
    """The turns of the loop for one server or one client's connections, and the steps at their ends."""

    __slots__ = ("_steps", "_want_turn")

    def __init__(
        self, may_leave: Callable[[], bool] | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._monotonic = monotonic
        self.may_leave = may_leave
        self._steps: list[TurnStep] = []
        #: Who waits for a turn alone.
        self._want_turn: deque[asyncio.Future[None]] = deque()

    def step(self) -> TurnStep:
        """Return a new step, which runs behind all that were made before it."""
        step = TurnStep(self)
        self._steps.append(step)
        return step

    def write_now(self) -> None:
        """Do what `TurnStep.write_now` says."""
        if not any(step.is_due and step.withholds for step in self._steps):
            for link in self.joined:
                link._write()

    def forget_loop(self) -> None:
        """Have the next turns end in the loop that runs then; whoever has a new connection calls it."""
        self.call_soon = None

    # One expensive request a turn ------------------------------------------------------------------------
    #
    #     turn 1    pull by SQL │ send │ send │ pull by SQL: waits │ pull by SQL: waits
    #     turn 2    the second pull by SQL │ send │ heartbeat
    #     turn 3    the third pull by SQL │ …
    #
    # Many such requests may come in one read of a socket. Each of them is bounded; together they are not.

    def take(self) -> bool:
        """Return whether this turn is the caller's to do something expensive; if not, it may `wait`."""
        if self._is_taken:
            return False
        self._is_taken = True
        self.plan_end()
        return True

    async def wait(self) -> None:
        """Return in a turn that is the caller's; whoever asked first is first."""
        if self.take():
            return
        turn = asyncio.get_running_loop().create_future()
        self._want_turn.append(turn)
        await turn

    # Inside ----------------------------------------------------------------------------------------------

    def _run_steps(self) -> None:
        self.has_due_steps = False
        for step in self._steps:
            if step.is_due:
                step.is_due = False
                try:
                    step.run()
                except Exception:  # noqa: BLE001  our own mistake; the links of this turn must still write
                    _log.exception("a step at the end of a turn failed")

    def _give_up(self, links: list[Link]) -> None:
        """Close links after a mistake of the shortcut."""
        _log.exception("frames of %d connections could not be handled; they are closed", len(links))
        for link in links:
            link.close()

    def _keep_back(self, links: list[Link]) -> None:
        """End links whose answers do not hold."""
        _log.warning("answers to %d connections do not hold any more; they are closed instead", len(links))
        for link in links:
            link.abort()

    def _look_for_bytes(self, turns: int) -> None:
        """Note that the loop is idle if no bytes are read in so many turns."""
        if self.began_at is not None:
            return
        if turns:
            asyncio.get_running_loop().call_soon(self._look_for_bytes, turns - 1)
        else:
            self._is_idle = True

    def _pass_on(self) -> None:
        """Give the next turn to the first who waits for one."""
        while self._want_turn:
            turn = self._want_turn.popleft()
            # Whoever does not wait any more needs no turn.
            if not turn.done():
                turn.set_result(None)
                self.plan_end()
                return
        self._is_taken = False


def _nothing() -> None:
    pass
