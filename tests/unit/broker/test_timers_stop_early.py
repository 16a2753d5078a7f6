"""A broker that still finds out which messages wait can be stopped at once."""

import asyncio
import shutil
from pathlib import Path

import pytest
from timer_stage import TimerStage

from pyromq.broker.kinds import done_names
from pyromq.testing.manual_clock import ManualClock

HOUR_MS = 3_600_000
#: Only spent when the test fails.
DEADLINE_S = 30.0


async def test_a_stop_does_not_wait_until_the_table_has_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    stage = TimerStage(tmp_path, clock)
    await stage.start()
    for number in range(200):
        stage.send(str(number), HOUR_MS)
    await stage.close()
    shutil.rmtree(tmp_path / "timers")
    monkeypatch.setattr(done_names, "STEP_RECORDS", 1)

    stopped = TimerStage(tmp_path, clock)
    starting = asyncio.create_task(stopped.start())
    # A step takes at least one turn of the loop, so it is seen in one of the first.
    async with asyncio.timeout(DEADLINE_S):
        while not (tmp_path / "timers" / "waiting.db").exists():  # noqa: ASYNC110
            await asyncio.sleep(0)
    await stopped.close()

    assert not starting.done()
    starting.cancel()
    monkeypatch.undo()
    again = TimerStage(tmp_path, clock)
    await again.start()
    assert await again.timers.count() == 200
    await again.close()
