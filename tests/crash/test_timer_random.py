"""Timed messages through any story of sends, waits, recalls, files that go, kills and stops: each once."""

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from effort import times
from timer_stage import TOPIC, TimerStage

from pyromq.broker.kinds import done_names
from pyromq.broker.kinds.timers import keeper, timers
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually

HOUR_MS = 3_600_000
STEPS = 60


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few messages be many, so that all that is done with many is done."""
    for module, name, value in (
        (timers, "NEAR_MAX", 12),
        (timers, "NEAR_KEPT", 6),
        (timers, "TURN_MESSAGES_MAX", 3),
        (keeper, "LOADED_MAX", 4),
        (keeper, "LOW_COUNT", 3),
        (keeper, "WRITTEN_MAX", 9),
        (keeper, "MANY", 7),
        (keeper, "LOOKED_AT", 5),
        (keeper, "STRETCH_BYTES", 1_000),
        (done_names, "STEP_RECORDS", 5),
    ):
        monkeypatch.setattr(module, name, value)


class Story:
    """One store, its lives, and what is to come of what was sent."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = ManualClock()
        self.folder = folder
        self.lives = 0
        #: When each message is due that was sent and not recalled.
        self.due_ms: dict[str, int] = {}
        #: How often each is to come: as often as it was sent, or as it had come when it was recalled.
        self.times: Counter[str] = Counter()
        #: Messages whose fate a file has that is gone.
        self.seen: Counter[str] = Counter()
        self.stage = self._stage()

    def _stage(self) -> TimerStage:
        return TimerStage(
            self.folder / f"{self.lives}",
            self.clock,
            delete_when=";".join(map(str, range(24))),
            message_index_enable=self.chance.random() < 0.5,
            file_reserved_time=1,
        )

    async def run(self) -> None:
        """Live through it."""
        await self.stage.start()
        for _ in range(STEPS):
            often = (self.send, self.wait) * 3
            step = self.chance.choice(
                (*often, self.recall, self.recall, self.write, self.sweep, self.kill, self.stop)
            )
            await step()

    async def send(self) -> None:
        """Send some, due now or soon or late."""
        for _ in range(self.chance.randrange(1, 12)):
            body = f"{len(self.due_ms):04d}{self.chance.randrange(10**6):06d}"
            delay_ms = self.chance.choice((0, 1, 500, 4_000, 60_000, 3 * HOUR_MS))
            self.due_ms[body] = self.clock.now_ms() + delay_ms
            # Now and then a producer sends again, because it has no answer.
            for _ in range(self.chance.choice((1, 1, 1, 2, 3))):
                self.stage.send(body, delay_ms, filling=self.chance.choice((0, 0, 300)))
                self.times[body] += 1

    async def wait(self) -> None:
        """Let time pass, in which what is due comes, or part of it."""
        self.clock.advance(self.chance.choice((1, 499, 3_000, 30_000, HOUR_MS)))
        if self.chance.random() < 0.7:
            now_ms = self.clock.now_ms()

            async def nothing_is_due() -> bool:
                rows = await self.stage.timers.list_waiting(count=1)
                return not rows or rows[0][0] > now_ms

            await aeventually(nothing_is_due, what="what is due is delivered")

    async def recall(self) -> None:
        """Recall one, which may wait or not; no copy of it comes after that."""
        if not self.due_ms:
            return
        body = self.chance.choice(sorted(self.due_ms))
        recalled = await self.stage.timers.recall(TOPIC, body, due_ms=self.due_ms[body])
        if recalled.was_waiting:
            del self.due_ms[body]
            self.times[body] = (self.stage.delivered() + self.seen)[body]

    async def write(self) -> None:
        """Have the table written."""
        await self.stage.write()

    async def sweep(self) -> None:
        """Let old files go; what they hold of the own topic is seen and noted before."""
        store = self.stage.store
        store.sync_queues()
        before = self.stage.delivered()
        store.sweep().remove()
        self.seen += before - self.stage.delivered()

    async def kill(self) -> None:
        """Go on with what a kill would leave."""
        old = self.stage
        self.lives += 1
        shutil.copytree(old.folder, self.folder / f"{self.lives}")
        await old.close()
        self.stage = self._stage()
        await self.stage.start()

    async def stop(self) -> None:
        """Stop in order, and start again."""
        await self.stage.close()
        settings = self.stage.settings
        self.stage = TimerStage(
            self.stage.folder, self.clock, message_index_enable=settings.message_index_enable
        )
        await self.stage.start()

    async def end(self) -> Counter[str]:
        """Let everything come, and return how often each did."""
        self.clock.advance(1_000 * HOUR_MS)

        async def is_over() -> bool:
            return await self.stage.timers.count() == 0

        await aeventually(is_over, what="nothing waits")
        delivered = self.stage.delivered() + self.seen
        await self.stage.close()
        return delivered


@pytest.mark.row("DE-10")
@pytest.mark.parametrize("seed", range(times(2)))
async def test_whatever_happens_each_message_comes_as_often_as_it_was_sent(tmp_path: Path, seed: int) -> None:
    story = Story(tmp_path, seed)
    await story.run()

    delivered = await story.end()

    assert delivered == +story.times
