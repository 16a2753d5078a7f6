"""Held pulls hear of messages once they may be read."""

from pathlib import Path

from pyromq.broker.delivery.arrivals import Announcements, Arrivals, HeldPull
from pyromq.config.settings import MIB, StoreSettings
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire.record import encode_host


class Stage:
    """A store and who waits for its queues."""

    def __init__(self, folder: Path) -> None:
        clock = ManualClock()
        settings = StoreSettings(store_path_root_dir=str(folder), mapped_file_size_commit_log=MIB)
        self.store = MessageStore(settings, clock=clock)
        self.store.open()
        self.arrivals = Arrivals(self.store.max_offset, clock)
        self.announcements = Announcements(self.store, self.arrivals)
        self.store.on_append = self.announcements.stored
        self.woken: list[int] = []

    def put(self) -> int:
        host = encode_host("127.0.0.1", 1)
        draft = Draft(
            topic="t",
            queue_id=0,
            body=b"b",
            properties="",
            flag=0,
            sys_flag=0,
            born_at_ms=1,
            born_host=host,
            store_host=host,
        )
        return self.store.put(draft).end

    def hold(self, offset: int) -> None:
        self.arrivals.hold("t", 0, HeldPull(offset, 1 << 60, None, lambda: self.woken.append(offset)))


async def test_a_message_is_announced_at_once_where_everything_may_be_read(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.hold(0)
    stage.put()
    await aeventually(lambda: stage.woken == [0])
    stage.store.close()


async def test_a_message_that_may_not_be_read_yet_is_announced_when_it_may(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.announcements.confirmed_up_to(0)
    stage.hold(0)
    first, second = stage.put(), stage.put()
    assert stage.arrivals.held_count == 1
    stage.announcements.confirmed_up_to(first)
    assert stage.store.readable_end("t", 0) == 1
    await aeventually(lambda: stage.woken == [0])
    stage.hold(1)
    stage.announcements.confirmed_up_to(second)
    await aeventually(lambda: stage.woken == [0, 1])
    stage.store.close()


async def test_a_pull_that_comes_between_the_two_is_woken_too(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.announcements.confirmed_up_to(0)
    end = stage.put()
    stage.hold(0)
    stage.announcements.grew("t", 0, 0, 1)
    stage.announcements.confirmed_up_to(end)
    await aeventually(lambda: stage.woken == [0])
    stage.store.close()
