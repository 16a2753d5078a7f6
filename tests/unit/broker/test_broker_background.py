import asyncio
from collections.abc import AsyncIterator

import pytest

from pyromq.broker.background import Background
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def background(clock: ManualClock) -> AsyncIterator[Background]:
    background = Background(clock)
    yield background
    await background.close()


async def let_jobs_start() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_job_runs_each_time_its_pause_is_over(background: Background, clock: ManualClock) -> None:
    runs: list[int] = []
    background.every("count", 5, lambda: runs.append(clock.now_ms()))
    await let_jobs_start()
    started_at_ms = clock.now_ms()

    clock.advance(4_999)
    await let_jobs_start()
    assert runs == []

    clock.advance(1)
    await aeventually(lambda: len(runs) == 1)
    await let_jobs_start()
    clock.advance(5_000)
    await aeventually(lambda: len(runs) == 2)
    assert runs == [started_at_ms + 5_000, started_at_ms + 10_000]


async def test_the_first_pause_may_be_another(background: Background, clock: ManualClock) -> None:
    runs: list[int] = []
    background.every("count", 60, lambda: runs.append(1), first_s=1)
    await let_jobs_start()

    clock.advance(1_000)

    await aeventually(lambda: runs == [1])


async def test_a_job_that_fails_is_logged_and_tried_again(
    background: Background, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[int] = []

    async def fail() -> None:
        runs.append(1)
        raise ZeroDivisionError

    background.every("divide", 1, fail)
    await let_jobs_start()
    clock.advance(1_000)
    await aeventually(lambda: len(runs) == 1)
    await let_jobs_start()
    clock.advance(1_000)

    await aeventually(lambda: len(runs) == 2)
    assert "divide failed" in caplog.text


async def test_after_the_close_no_job_runs(clock: ManualClock) -> None:
    background = Background(clock)
    runs: list[int] = []
    background.every("count", 1, lambda: runs.append(1))
    await let_jobs_start()

    await background.close()
    # What was under way when a broker closed may come too late with a job.
    background.every("come late", 1, lambda: runs.append(2), first_s=0.0)
    clock.advance(10_000)
    await let_jobs_start()

    assert runs == []


async def test_a_disk_that_is_full_is_logged_in_a_line_without_a_trace(
    background: Background, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def save() -> None:
        raise OSError(28, "No space left on device")

    background.every("save progress", 1, save)
    await let_jobs_start()

    clock.advance(1_000)
    await aeventually(lambda: len(caplog.records) == 1)

    assert caplog.records[0].exc_info is None
    assert "save progress failed" in caplog.text
    assert "No space left on device" in caplog.text


async def test_a_job_whose_pause_may_change_says_when_it_is_tried_again(
    background: Background, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise OSError("no room")

    background.every("save", lambda: 7.0, fail)
    clock.advance(7_000)

    await aeventually(lambda: "save failed; it is tried again in 7 s: no room" in caplog.text)


async def test_it_is_behind_until_what_is_due_has_run_to_its_end(
    background: Background, clock: ManualClock
) -> None:
    may_end = asyncio.Event()

    async def work() -> None:
        await may_end.wait()

    background.every("work", 5, work)
    await let_jobs_start()
    assert not background.is_behind(clock.monotonic())

    clock.advance(5_000)
    assert background.is_behind(clock.monotonic())
    await let_jobs_start()
    # It runs, and began after the clock was moved.
    assert background.is_behind(clock.monotonic())

    may_end.set()
    await let_jobs_start()
    assert not background.is_behind(clock.monotonic())


async def test_a_job_that_began_before_the_clock_was_moved_may_run_on(
    background: Background, clock: ManualClock
) -> None:
    background.every("for ever", 5, asyncio.Event().wait, first_s=0)  # type: ignore[arg-type]
    await let_jobs_start()

    clock.advance(60_000)

    assert not background.is_behind(clock.monotonic())
