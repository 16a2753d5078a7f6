import asyncio
import threading
from collections.abc import Iterator

import pytest

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.durability.log_sync import SETTLE_PAUSE_FACTOR, UNSAFE_BYTES_MAX, settle_pause
from pyromq.codes import ResponseCode
from pyromq.config.choices import FlushDiskType
from pyromq.config.settings import StoreSettings
from pyromq.errors import ServiceNotAvailable, SyncFailed
from pyromq.net.routes import Answer
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually


class SlowLog:
    """A log whose syncs last until they are let go."""

    def __init__(self) -> None:
        self.max_position = 0
        self.flushed_position = 0
        #: The beginning of a record whose rest has not come.
        self.partial = 0
        self.sync_count = 0
        self.is_broken = False
        self._may_end = threading.Semaphore(0)

    is_writable = True

    def commit(self) -> None:
        """There is no write buffer."""

    @property
    def committed_position(self) -> int:
        return self.whole_position

    @property
    def whole_position(self) -> int:
        return self.max_position - self.partial

    def append(self, size: int) -> int:
        self.max_position += size
        return self.max_position

    def sync(self) -> int:
        end = self.whole_position
        self.sync_count += 1
        self._may_end.acquire()
        if self.is_broken:
            raise SyncFailed("the disk is gone")
        self.flushed_position = end
        return end

    def queue_sync_if_due(self) -> None:
        return None

    def let_go(self, count: int = 1) -> None:
        self._may_end.release(count)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def slow_log() -> SlowLog:
    return SlowLog()


@pytest.fixture
def durability(slow_log: SlowLog, clock: ManualClock) -> Iterator[Durability]:
    settings = StoreSettings(flush_disk_type=FlushDiskType.SYNC_FLUSH)
    durability = Durability(slow_log, settings, clock)
    yield durability
    slow_log.let_go(100)
    durability.close()


async def test_an_answer_waits_for_the_disk(durability: Durability, slow_log: SlowLog) -> None:
    answer = durability.confirm(slow_log.append(100), Answer())
    await aeventually(lambda: slow_log.sync_count == 1)
    assert not answer.done()

    slow_log.let_go()

    assert (await answer).code == ResponseCode.SUCCESS


async def test_all_sends_of_a_turn_share_one_sync(durability: Durability, slow_log: SlowLog) -> None:
    answers = [durability.confirm(slow_log.append(100), Answer()) for _ in range(50)]
    slow_log.let_go()

    await asyncio.gather(*answers)

    assert slow_log.sync_count == 1


async def test_what_arrives_during_a_sync_shares_the_next_one(
    durability: Durability, slow_log: SlowLog
) -> None:
    first = durability.confirm(slow_log.append(100), Answer())
    await aeventually(lambda: slow_log.sync_count == 1)
    later = [durability.confirm(slow_log.append(100), Answer()) for _ in range(50)]

    slow_log.let_go()
    await first
    assert not any(answer.done() for answer in later)

    slow_log.let_go()
    await asyncio.gather(*later)
    assert slow_log.sync_count == 2


async def test_a_disk_that_is_too_slow_is_a_result_and_not_an_error(
    slow_log: SlowLog, clock: ManualClock
) -> None:
    settings = StoreSettings(flush_disk_type=FlushDiskType.SYNC_FLUSH, sync_flush_timeout=10)
    durability = Durability(slow_log, settings, clock)

    answer = await durability.confirm(slow_log.append(100), Answer())

    assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
    slow_log.let_go()
    durability.close()


async def test_a_failed_sync_refuses_everyone_who_waits(durability: Durability, slow_log: SlowLog) -> None:
    slow_log.is_broken = True
    answers = [durability.confirm(slow_log.append(100), Answer()) for _ in range(3)]
    slow_log.let_go()

    results = await asyncio.gather(*answers, return_exceptions=True)

    assert [type(result) for result in results] == [ServiceNotAvailable] * 3


async def test_a_client_that_has_gone_holds_up_nobody(durability: Durability, slow_log: SlowLog) -> None:
    gone = durability.confirm(slow_log.append(100), Answer())
    stays = durability.confirm(slow_log.append(100), Answer())
    gone.cancel()
    slow_log.let_go()

    assert (await stays).code == ResponseCode.SUCCESS


async def test_a_little_that_is_new_waits_for_the_thorough_sync(
    durability: Durability, slow_log: SlowLog, clock: ManualClock
) -> None:
    slow_log.let_go()
    slow_log.append(4 * 4096 - 1)
    await durability.sync_if_due()
    assert slow_log.sync_count == 0

    clock.advance(10_000)
    await durability.sync_if_due()
    assert slow_log.sync_count == 1


async def test_four_new_pages_are_synced_at_once(durability: Durability, slow_log: SlowLog) -> None:
    slow_log.let_go()
    slow_log.append(4 * 4096)

    await durability.sync_if_due()

    assert slow_log.flushed_position == 4 * 4096


async def test_nothing_new_is_not_synced(
    durability: Durability, slow_log: SlowLog, clock: ManualClock
) -> None:
    clock.advance(60_000)
    await durability.sync_if_due()
    assert slow_log.sync_count == 0


async def test_after_a_failed_sync_nothing_is_synced_again(durability: Durability, slow_log: SlowLog) -> None:
    slow_log.is_broken = True
    slow_log.let_go(2)
    with pytest.raises(ServiceNotAvailable):
        await durability.confirm(slow_log.append(4 * 4096), Answer())

    with pytest.raises(ServiceNotAvailable):
        await durability.confirm(slow_log.append(4 * 4096), Answer())
    await durability.sync_if_due()

    assert slow_log.sync_count == 1


async def test_what_was_appended_in_the_turn_of_the_end_is_left_to_the_store(
    durability: Durability, slow_log: SlowLog
) -> None:
    mistakes: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, about: mistakes.append(about))
    slow_log.append(100)
    durability.appended()

    durability.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert not mistakes
    assert slow_log.sync_count == 0


async def test_the_beginning_of_a_record_is_not_waited_for(durability: Durability, slow_log: SlowLog) -> None:
    """A slave whose master died in the midst of a record synced for ever, and never ended to wait."""
    slow_log.append(100)
    slow_log.partial = 30
    slow_log.let_go(100)
    durability.appended()

    async with asyncio.timeout(10):
        await durability.sync_now()

    assert slow_log.flushed_position == 70
    for _ in range(20):
        await asyncio.sleep(0)
    assert slow_log.sync_count == 1


async def test_all_writes_of_a_turn_wait_once_and_for_the_last_of_them(
    durability: Durability, slow_log: SlowLog
) -> None:
    waits: list[float] = []
    durability.on_safe = waits.append
    told: list[Exception | None] = []
    answer = durability.confirm(slow_log.append(100), Answer())
    durability.with_this_turn(slow_log.append(100), told.append)
    slow_log.let_go()

    assert (await answer).code == ResponseCode.SUCCESS
    assert told == [None]
    assert len(waits) == 1
    assert slow_log.sync_count == 1


def test_a_settling_gets_more_of_the_loop_the_more_a_start_would_have_to_walk() -> None:
    pauses = [settle_pause(part * UNSAFE_BYTES_MAX // 4) for part in range(13)]
    assert pauses[:5] == [SETTLE_PAUSE_FACTOR] * 5
    assert pauses[8:] == [1] * 5
    assert pauses[4] > pauses[5] > pauses[6] > pauses[7] > pauses[8]
