"""Timed messages beside a store: the clock is set, syncs wait, tables break, and many wait at once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from staged_files import StagedFiles
from timer_stage import TOPIC, TimerStage

from pyromq.broker.kinds import done_names
from pyromq.broker.kinds.timers import keeper, timers
from pyromq.broker.kinds.timers.near import NEVER
from pyromq.broker.requests.handlers.timer_handlers import TimerHandlers
from pyromq.codes import RequestCode
from pyromq.config.settings import BrokerSettings
from pyromq.errors import ServiceNotAvailable
from pyromq.net.routes import Request
from pyromq.store.store import MessageStore
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command
from pyromq.wire.headers.timer_headers import ListWaiting
from pyromq.wire.record import iter_records

HOUR_MS = 3_600_000


class SettableClock(ManualClock):
    """A clock that can be set back, as an operator can the machine's."""

    def set_back(self, ms: int) -> None:
        """Set the wall clock back; the other one runs on."""
        self._now_ms -= ms
        self.advance(0)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def files() -> StagedFiles:
    return StagedFiles()


@pytest.fixture
async def stage(tmp_path: Path, clock: SettableClock, files: StagedFiles) -> AsyncIterator[TimerStage]:
    stage = TimerStage(tmp_path, clock, files=files)
    await stage.start()
    yield stage
    await stage.close()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few messages be many."""
    monkeypatch.setattr(timers, "NEAR_MAX", 40)
    monkeypatch.setattr(timers, "NEAR_KEPT", 20)
    monkeypatch.setattr(timers, "TURN_MESSAGES_MAX", 7)
    monkeypatch.setattr(keeper, "LOADED_MAX", 16)
    monkeypatch.setattr(keeper, "LOW_COUNT", 8)
    monkeypatch.setattr(keeper, "WRITTEN_MAX", 30)
    monkeypatch.setattr(keeper, "MANY", 20)
    monkeypatch.setattr(keeper, "LOOKED_AT", 5)
    monkeypatch.setattr(keeper, "STRETCH_BYTES", 4_000)
    monkeypatch.setattr(done_names, "STEP_RECORDS", 11)


async def turns(count: int = 30) -> None:
    """Let the loop, and the table's thread, have some turns."""
    for _ in range(count):
        await asyncio.to_thread(int)


# The clock


async def test_a_clock_that_is_set_forward_delivers(stage: TimerStage, clock: SettableClock) -> None:
    stage.send("a", 5 * HOUR_MS)
    await stage.write()

    clock.advance(400 * HOUR_MS)

    assert await stage.await_delivered(1) == {"a": 1}


async def test_a_clock_that_is_set_back_waits(stage: TimerStage, clock: SettableClock) -> None:
    stage.send("a", 2_000)
    clock.advance(1_000)
    await turns()

    clock.set_back(HOUR_MS)
    clock.advance(HOUR_MS)
    await turns()
    assert stage.delivered() == {}

    clock.advance(1_000)
    assert await stage.await_delivered(1) == {"a": 1}


async def test_what_is_sent_after_the_clock_was_set_back_comes_in_its_time(
    stage: TimerStage, clock: SettableClock
) -> None:
    stage.send("late", 2 * HOUR_MS)
    await stage.write()
    clock.advance(2 * HOUR_MS - 100)
    await turns()
    clock.set_back(HOUR_MS)

    stage.send("early", 1_000)
    clock.advance(1_000)

    assert await stage.await_delivered(1) == {"early": 1}


# Syncs and tables


async def test_the_table_does_not_know_what_the_disk_does_not_have(
    stage: TimerStage, files: StagedFiles, tmp_path: Path
) -> None:
    stage.send("a", HOUR_MS)
    with files.held_syncs():
        stage.timers.nudge()
        await turns()
        assert stage.pending == 1
        assert not (tmp_path / "timers").exists()

    await aeventually(lambda: stage.pending == 0)
    assert (tmp_path / "timers" / "waiting.db").exists()


async def test_a_delivery_is_written_down_when_the_disk_has_it(
    stage: TimerStage, files: StagedFiles, clock: SettableClock
) -> None:
    stage.send("a", 1_000)
    await stage.write()
    with files.held_syncs():
        clock.advance(1_000)
        await stage.await_delivered(1)
        stage.timers.nudge()
        await turns()
        assert stage.pending == 1

    await aeventually(lambda: stage.pending == 0)
    assert await stage.timers.count() == 0


async def test_what_was_delivered_and_not_written_is_not_listed(
    stage: TimerStage, files: StagedFiles, clock: SettableClock
) -> None:
    stage.send("a", 1_000)
    stage.send("b", 2_000)
    await stage.write()
    with files.held_syncs():
        clock.advance(1_000)
        await stage.await_delivered(1)

        assert [row[0] - clock.now_ms() for row in await stage.timers.list_waiting(count=9)] == [1_000]
        assert await stage.timers.count() == 1


async def test_a_table_that_breaks_while_it_is_used_is_made_again(
    stage: TimerStage, clock: SettableClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(40):
        stage.send(f"{number}", 60_000 + number * 1_000)
    await stage.write()
    await _empty_cache(stage)
    table = tmp_path / "timers" / "waiting.db"
    for path in (table, table.with_name("waiting.db-wal")):
        path.write_bytes(b"\xff" * path.stat().st_size)

    for _ in range(110):
        clock.advance(1_000)
        stage.timers.nudge()
        await turns(2)

    assert await stage.await_delivered(40) == {f"{number}": 1 for number in range(40)}
    await aeventually(lambda: "made again from the log" in caplog.text)


async def _empty_cache(stage: TimerStage) -> None:
    """Let SQLite forget the pages it read, as it does when there are many."""
    connection = stage.timers._keeper._table._connection
    assert connection is not None
    await stage.timers._keeper._call(lambda: connection.execute("PRAGMA shrink_memory"))


async def test_a_disk_without_room_for_the_table_loses_nothing(
    tmp_path: Path, clock: SettableClock, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "timers").write_bytes(b"in the way")
    stage = TimerStage(tmp_path, clock)
    await stage.start()
    stage.send("a", 1_000)
    stage.send("b", 9_000)
    for _ in range(3):
        stage.timers.nudge()
        await turns(5)

    clock.advance(1_000)
    assert await stage.await_delivered(1) == {"a": 1}
    # The table is another thread's, and delivering does not wait for it.
    await aeventually(lambda: "behind the log" in caplog.text, what="it is told that the table is behind")
    assert sum("behind the log" in record.message for record in caplog.records) == 1
    (tmp_path / "timers").unlink()
    await stage.write()
    clock.advance(8_000)

    assert await stage.await_delivered(2) == {"a": 1, "b": 1}
    await stage.close()


# Many


@pytest.mark.usefixtures("few")
async def test_many_wait_and_few_are_in_memory(stage: TimerStage, clock: SettableClock) -> None:
    most = 0
    for number in range(300):
        stage.send(f"{number}", 1 + number * 37 % 4_000)
        if number % 10 == 0:
            await turns(1)
        most = max(most, stage.timers.in_memory)
    for _ in range(45):
        clock.advance(100)
        await turns(3)
        most = max(most, stage.timers.in_memory)

    assert await stage.await_delivered(300) == {f"{number}": 1 for number in range(300)}
    assert most <= 41


@pytest.mark.usefixtures("few")
async def test_a_table_is_made_again_in_steps(tmp_path: Path, clock: SettableClock) -> None:
    first = TimerStage(tmp_path, clock)
    await first.start()
    for number in range(200):
        first.send(f"{number}", 1_000 if number % 3 else 5_000)
    clock.advance(1_000)
    await first.await_delivered(133)
    await first.close()
    (tmp_path / "timers" / "waiting.db").unlink()

    stage = TimerStage(tmp_path, clock)
    await stage.start()

    assert await stage.timers.count() == 67
    clock.advance(4_000)
    assert await stage.await_delivered(200) == {f"{number}": 1 for number in range(200)}
    await stage.close()


@pytest.mark.usefixtures("few")
async def test_pages_are_whole_while_messages_come_and_go(stage: TimerStage, clock: SettableClock) -> None:
    for number in range(100):
        stage.send(f"{number}", 10_000 + number)
    stage.timers.nudge()
    seen: Counter[int] = Counter()
    after = NEVER
    while page := await stage.timers.list_waiting(after=after, count=7):
        seen.update(position for _, position, _ in page)
        after = page[-1][:2]
        stage.send("more", 5_000)

    assert len(seen) == 100
    assert set(seen.values()) == {1}


async def test_a_topic_of_its_own_is_listed_alone(stage: TimerStage) -> None:
    stage.send("a", 5_000)
    handlers = TimerHandlers(
        stage.timers,
        store=stage.store,
        topics=None,  # type: ignore[arg-type]
        durability=stage.durability,
        settings=BrokerSettings(),
    )

    async def listed(topic: str) -> list[bytes]:
        command = Command(RequestCode.LIST_WAITING)
        request = Request(command, ListWaiting(topic=topic, max_num=5), None)  # type: ignore[arg-type]
        answer = await handlers.list_waiting(request)
        return [record.body for record in iter_records(answer.body or b"")]

    assert await listed(TOPIC) == [b"a"]
    assert await listed("others") == []


# Recalls


@pytest.fixture(params=[True, False], ids=["by the index", "by the time"])
async def recalling(
    tmp_path: Path, clock: SettableClock, request: pytest.FixtureRequest
) -> AsyncIterator[TimerStage]:
    stage = TimerStage(tmp_path, clock, message_index_enable=request.param)
    await stage.start()
    yield stage
    await stage.close()


@pytest.mark.row("DE-10")
@pytest.mark.parametrize("delay_ms", [100, HOUR_MS])
@pytest.mark.parametrize("is_written", [True, False])
async def test_a_recalled_message_is_never_delivered(
    recalling: TimerStage, clock: SettableClock, delay_ms: int, *, is_written: bool
) -> None:
    stage, due_ms = recalling, clock.now_ms() + delay_ms
    stage.send("a", delay_ms)
    stage.send("b", delay_ms)
    if is_written:
        await stage.write()
        await turns()

    recalled = await stage.timers.recall(TOPIC, "a", due_ms=due_ms)

    assert (recalled.was_waiting, recalled.due_ms) == (True, due_ms)
    clock.advance(delay_ms)
    assert await stage.await_delivered(1) == {"b": 1}
    assert await stage.timers.count() == 0


@pytest.mark.row("DE-10")
@pytest.mark.parametrize("is_written", [True, False])
async def test_what_does_not_wait_is_not_recalled(
    recalling: TimerStage, clock: SettableClock, *, is_written: bool
) -> None:
    stage, due_ms = recalling, clock.now_ms() + 1_000
    stage.send("a", 1_000)
    stage.send("b", 1_000)
    assert (await stage.timers.recall(TOPIC, "b", due_ms=due_ms)).was_waiting
    clock.advance(1_000)
    await stage.await_delivered(1)
    if is_written:
        await stage.write()
    end = stage.store.max_position

    for topic, unique_id in ((TOPIC, "a"), (TOPIC, "b"), (TOPIC, "c"), ("others", "a")):
        recalled = await stage.timers.recall(topic, unique_id, due_ms=due_ms)
        assert not recalled.was_waiting

    assert stage.store.max_position == end


async def test_of_many_recalls_of_one_message_one_succeeds(
    recalling: TimerStage, clock: SettableClock
) -> None:
    stage = recalling
    stage.send("a", HOUR_MS)
    await stage.write()

    due_ms = clock.now_ms() + HOUR_MS
    answers = await asyncio.gather(*(stage.timers.recall(TOPIC, "a", due_ms=due_ms) for _ in range(8)))

    assert sum(answer.was_waiting for answer in answers) == 1


@pytest.mark.row("DE-10")
@pytest.mark.parametrize("steps", range(4))
@pytest.mark.parametrize("with_write", [True, False])
async def test_a_copy_that_arrives_while_a_recall_looks_is_taken_back_too(
    recalling: TimerStage, clock: SettableClock, steps: int, *, with_write: bool
) -> None:
    stage = recalling
    for _ in range(2):
        stage.send("a", HOUR_MS)
    stage.send("b", HOUR_MS)
    await stage.write()

    asked = asyncio.ensure_future(stage.timers.recall(TOPIC, "a", due_ms=clock.now_ms() + HOUR_MS))
    for _ in range(steps):
        await asyncio.sleep(0)
    is_in_time = not asked.done()
    stage.send("a", HOUR_MS)
    if with_write:
        await stage.write()

    assert is_in_time, "it asks the table"
    assert (await asked).was_waiting
    clock.advance(HOUR_MS)
    assert await stage.await_delivered(1) == {"b": 1}
    assert await stage.timers.count() == 0


async def test_a_recall_that_cannot_be_stored_is_refused(
    stage: TimerStage, files: StagedFiles, clock: SettableClock
) -> None:
    stage.send("a", 1_000)
    files.percent_used = 99
    stage.store.check_disk()

    with pytest.raises(ServiceNotAvailable):
        await stage.timers.recall(TOPIC, "a", due_ms=clock.now_ms() + 1_000)

    files.percent_used = 10
    stage.store.check_disk()
    clock.advance(1_000)
    assert await stage.await_delivered(1) == {"a": 1}


# Files that go


@pytest.mark.row("DE-10")
@pytest.mark.parametrize("delay_ms", [2_000, HOUR_MS])
async def test_a_message_of_a_file_that_went_comes_once_however_soon_it_is_due(
    stage: TimerStage, files: StagedFiles, clock: SettableClock, delay_ms: int
) -> None:
    stage.send("a", delay_ms)
    await stage.write()
    await turns()
    for number in range(8):
        stage.send(f"plain {number}", filling=900)
    stage.store.sync_queues()
    files.percent_used = 88

    async def is_gone() -> bool:
        stage.store.sweep().remove()
        stage.store.sync_queues()
        stage.timers.nudge()
        return stage.store.min_position > 0

    await aeventually(is_gone, what="the oldest file is gone")
    await stage.write()
    clock.advance(delay_ms)

    await aeventually(lambda: stage.delivered()["a"] == 1)
    clock.advance(HOUR_MS)
    await turns()
    assert stage.delivered()["a"] == 1
    assert await stage.timers.count() == 0


# Records that cannot be delivered


async def test_a_damaged_record_is_passed_over_and_said(
    tmp_path: Path, clock: SettableClock, caplog: pytest.LogCaptureFixture
) -> None:
    stage = TimerStage(tmp_path, clock)
    await stage.start()
    placed = stage.send("a" * 20, 1_000)
    stage.send("b", 2_000)
    await stage.close()
    log = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    at = data.index(b"a" * 20, placed.position)
    data[at] ^= 1
    log.write_bytes(data)

    again = TimerStage(tmp_path, clock)
    await again.start()
    clock.advance(2_000)

    assert await again.await_delivered(1) == {"b": 1}
    await aeventually(lambda: f"position {placed.position}" in caplog.text)
    await again.close()


def test_a_store_without_timers_lets_files_go(tmp_path: Path) -> None:
    store = MessageStore(TimerStage(tmp_path, ManualClock()).settings, clock=ManualClock())

    assert store.may_go_before(1234) == 1234
