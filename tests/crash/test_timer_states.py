"""Timed messages over every crash: any table that was ever written, with any log that a crash may leave.

A power cut takes the table back to any of its transactions, and the log to anywhere behind its last sync. A
kill takes nothing back. All of these, and no table at all, are opened; time passes; each message that the log
has is then delivered once, and each that it says was recalled is not.
"""

import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from timer_stage import LOG_FILE_BYTES, TimerStage

from pyromq.system_names import WHEEL_TIMER
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire import properties as names
from pyromq.wire.record import MAGIC_AT, MAGIC_V1, Record, decode_record

DAY_MS = 24 * 3_600_000
MAGIC = MAGIC_V1.to_bytes(4, "big", signed=True)


@dataclass
class Moment:
    """What the disk has at one moment: the log's files, how far they are synced, and the tables so far."""

    log: dict[str, bytes]
    synced: int
    end: int
    tables: list[dict[str, bytes]]
    now_ms: int


@dataclass
class Story:
    """A run of which every moment is kept."""

    stage: TimerStage
    clock: ManualClock
    moments: list[Moment] = field(default_factory=list)
    #: No table at all is what a fresh one begins with, too.
    tables: list[dict[str, bytes]] = field(default_factory=lambda: [{}])

    async def step(self) -> None:
        """Keep the moment before the log is synced and the table written, and write it."""
        store = self.stage.store
        log = files_of(self.stage.folder / "commitlog")
        self.moments.append(
            Moment(log, store.flushed_position, store.max_position, list(self.tables), self.clock.now_ms())
        )
        await self.stage.write()
        self.tables.append(files_of(self.stage.folder / "timers"))


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


async def waits_and_deliveries(story: Story) -> None:
    stage = story.stage
    stage.send("first", 5_000)
    stage.send("second", 900)
    await story.step()
    story.clock.advance(1_000)
    await stage.await_delivered(1)
    stage.send("plain", filling=300)
    stage.send("third", 60_000)
    await story.step()
    story.clock.advance(5_000)
    await stage.await_delivered(3)
    stage.send("fourth", 100)
    await story.step()
    story.clock.advance(100)
    await stage.await_delivered(4)
    await story.step()


async def recalls(story: Story) -> None:
    stage = story.stage
    for body in ("first", "second", "third"):
        stage.send(body, 50_000)
    await story.step()
    due_ms = story.clock.now_ms() + 50_000
    assert (await stage.timers.recall("orders", "second", due_ms=due_ms)).was_waiting
    stage.send("fourth", 50_000)
    assert (await stage.timers.recall("orders", "fourth", due_ms=due_ms)).was_waiting
    await story.step()
    story.clock.advance(50_000)
    await stage.await_delivered(2)
    assert not (await stage.timers.recall("orders", "first", due_ms=due_ms)).was_waiting
    await story.step()


async def files_that_go(story: Story) -> None:
    stage = story.stage
    stage.send("first", 20 * DAY_MS)
    stage.send("second", 60_000)
    await story.step()
    for number in range(8):
        stage.send(f"plain {number}", filling=900)
    # Where the log ends among these tells nothing new.
    stage.store.sync()
    stage.send("third", 20 * DAY_MS)
    await story.step()
    story.clock.advance(5 * DAY_MS)
    await stage.await_delivered(9)
    await story.step()
    stage.store.sync_queues()
    # The first look has the messages stored again, and one behind that lets the files go.
    stage.store.sweep().remove()
    end = stage.store.max_position
    await aeventually(lambda: stage.store.max_position > end, what="they are stored again")
    await story.step()

    def are_gone() -> bool:
        stage.store.sync_queues()
        stage.store.sweep().remove()
        return stage.store.min_position > 0

    # Not all may have been stored again by then.
    await aeventually(are_gone, what="files go")
    await story.step()
    story.clock.advance(15 * DAY_MS)
    await stage.await_delivered(stage.store.max_offset("orders", 0) + 1)
    await story.step()


def ends_of_records(moment: Moment) -> list[int]:
    """Return where a crash may let the log end."""
    ends = {moment.synced, moment.end}
    for name, data in moment.log.items():
        ends |= {record.position + record.size for record in records_of(name, data, moment.end)}
    return sorted(end for end in ends if moment.synced <= end <= moment.end)


def records_of(name: str, data: bytes, end: int) -> list[Record]:
    at, base, found = 0, int(name), []
    while base + at < end and data[at + MAGIC_AT : at + MAGIC_AT + 4] == MAGIC:
        found.append(decode_record(data, at))
        at += found[-1].size
    return found


def expected(log: dict[str, bytes], end: int) -> Counter[str]:
    """Return what must be delivered in the end of what a log says, told from its records alone."""
    records = [record for name, data in log.items() for record in records_of(name, data, end)]
    bodies: dict[int, str] = {}
    delivered: Counter[str] = Counter()
    for record in records:
        bodies.pop(record.prepared_position - 1, None)
        if record.topic == "orders":
            delivered[record.body.decode()] += 1
        elif record.topic == WHEEL_TIMER and names.find_text(record.properties, names.TIMER_OUT_MS):
            bodies[record.position] = record.body.decode()
    return delivered + Counter(bodies.values())


async def survive(folder: Path, moment: Moment, table: dict[str, bytes], end: int) -> Counter[str]:
    """Open what a crash left, let a year pass, and return what was delivered."""
    (folder / "commitlog").mkdir(parents=True)
    for name, data in moment.log.items():
        kept = min(max(end - int(name), 0), LOG_FILE_BYTES)
        if kept or int(name) == 0:
            (folder / "commitlog" / name).write_bytes(data[:kept] + bytes(LOG_FILE_BYTES - kept))
    if table:
        (folder / "timers").mkdir()
        for name, data in table.items():
            (folder / "timers" / name).write_bytes(data)
    (folder / "abort").write_bytes(b"")
    clock = ManualClock(moment.now_ms)
    stage = TimerStage(folder, clock)
    await stage.start()
    clock.advance(366 * DAY_MS)

    async def is_over() -> bool:
        return await stage.timers.count() == 0

    await aeventually(is_over, what="nothing waits")
    delivered = stage.delivered()
    await stage.close()
    return delivered


@pytest.mark.row("DE-10")
@pytest.mark.parametrize("tell", [waits_and_deliveries, recalls, files_that_go])
async def test_whatever_a_crash_leaves_each_message_comes_once(
    tmp_path: Path, tell: Callable[[Story], Awaitable[None]]
) -> None:
    clock = ManualClock()
    stage = TimerStage(tmp_path / "story", clock, delete_when=";".join(map(str, range(24))))
    await stage.start()
    story = Story(stage, clock)
    await tell(story)
    await stage.close()

    outcomes = {}
    for number, moment in enumerate(story.moments):
        for end in ends_of_records(moment):
            for table_number, table in enumerate(moment.tables):
                folder = tmp_path / "after"
                found = await survive(folder, moment, table, end)
                if found != expected(moment.log, end):
                    outcomes[number, end, table_number] = found, expected(moment.log, end)
                shutil.rmtree(folder)
    assert outcomes == {}
    assert len(story.moments) >= 3
