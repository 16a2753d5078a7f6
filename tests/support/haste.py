"""A pytest plugin that hunts for races in tests: `pytest -p haste`.

A test that waits for one thing and then looks at another passes as long as the other is quicker. With this
plugin waits look again at once, a little later or much later, by chance; turns of the loop are held now and
then; and threads take turns often. What fails with it and passes without it has a race: test or code.
"""

import asyncio
import random
import sys
import time
from types import SimpleNamespace
from typing import Final

import pytest

from pyromq.testing import waiting

#: Until a wait looks again; mostly at once, so that it ends in the turn in which its condition comes true.
PAUSES_S: Final = (0.0, 0.0, 0.0, 0.0002, 0.001, 0.005, 0.1)
HOLD_S_MAX: Final = 0.01
#: One turn of the loop in so many is held.
HOLD_EVERY: Final = 10


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of what waiting.py sleeps with, and of the loop's turn."""
    sys.setswitchinterval(1e-5)

    async def asleep(_: float) -> None:
        await asyncio.sleep(random.choice(PAUSES_S))

    def sleep(_: float) -> None:
        time.sleep(random.choice(PAUSES_S))

    # Only the names in waiting.py: everything else sleeps as it always did.
    vars(waiting)["time"] = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    vars(waiting)["asyncio"] = SimpleNamespace(sleep=asleep)

    turn = asyncio.BaseEventLoop._run_once  # type: ignore[attr-defined]

    def held(loop: asyncio.BaseEventLoop) -> None:
        if not random.randrange(HOLD_EVERY):
            time.sleep(random.uniform(0, HOLD_S_MAX))
        turn(loop)

    asyncio.BaseEventLoop._run_once = held  # type: ignore[attr-defined]
