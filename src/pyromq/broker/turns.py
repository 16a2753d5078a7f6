"""What costs more than others should have to wait for: one of it in a turn of the loop, the rest in turns of
their own.

    turn 1    pull by SQL │ send │ send │ pull by SQL: waits │ pull by SQL: waits
    turn 2    the second pull by SQL │ send │ heartbeat
    turn 3    the third pull by SQL │ …

Many such requests may come in one read of a socket. Each of them is bounded; together they would not be.
"""

import asyncio
from collections import deque


class Turns:
    """Gives each turn of the loop to one of those who ask, in the order in which they do."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Return whether this turn of the loop is the caller's; if not, it may `wait` for one."""
        if self._is_taken:
            return False
        self._is_taken = True
        asyncio.get_running_loop().call_soon(self._pass_on)
        return True

    async def wait(self) -> None:
        """Return in a turn that is the caller's alone."""
        if self.take():
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _pass_on(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            # Whoever does not wait any more needs no turn.
            if not turn.done():
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._pass_on)
                return
        self._is_taken = False
