"""Since when the requests of a connection may wait to be handled."""

import asyncio

import pytest
from room_transport import RoomTransport

from pyromq.config.settings import NetSettings
from pyromq.net.link import Link
from pyromq.net.turn import Turn
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.command import Command, encode


class Stage:
    """A link, and for each request that it handled how many milliseconds it is said to have waited."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.waited_ms: list[int] = []
        self.transport = RoomTransport()
        self.turn = Turn(monotonic=self.clock.monotonic)
        self.link = self.new_link()

    def new_link(self) -> Link:
        link = Link(
            NetSettings(),
            turn=self.turn,
            clock=self.clock,
            on_request=self.handle,
            on_end=lambda link: None,
        )
        self.transport.protocol = link
        link.connection_made(self.transport)
        return link

    def handle(self, link: Link, command: Command) -> None:
        self.waited_ms.append(round((self.clock.monotonic() - link.waits_since) * 1000))
        # Who says so takes that long.
        self.clock.advance(command.code)


def frame(code: int = 0) -> bytes:
    return encode(Command(code))


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def turn_over() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_what_is_behind_a_slow_request_waits_since_the_turn_began(stage: Stage) -> None:
    stage.clock.advance(1_000)
    stage.link.data_received(frame(30) + frame() + frame())
    other = stage.new_link()
    other.data_received(frame())
    assert stage.waited_ms == [0, 30, 30, 30]


async def test_what_comes_right_after_a_long_turn_may_have_come_in_it(stage: Stage) -> None:
    stage.clock.advance(1_000)
    stage.link.data_received(frame(30))
    await turn_over()
    stage.clock.advance(5)
    stage.link.data_received(frame(1) + frame())
    await turn_over()
    # The long one was before the one before.
    stage.link.data_received(frame())
    assert stage.waited_ms == [0, 35, 36, 1]


async def test_what_comes_after_a_pause_has_just_come(stage: Stage) -> None:
    stage.link.data_received(frame(30))
    await turn_over()
    stage.clock.advance(6)
    stage.link.data_received(frame())
    assert stage.waited_ms[1:] == [0]


async def test_time_in_which_the_loop_did_not_look_is_no_pause(stage: Stage) -> None:
    """As for a process that gets no processor for a while, in the middle of much to do."""
    stage.clock.advance(1_000)
    stage.link.data_received(frame(30))
    await asyncio.sleep(0)
    assert stage.turn.began_at is None
    stage.clock.advance(500)
    stage.link.data_received(frame())
    await turn_over()
    # That one was short.
    stage.clock.advance(500)
    stage.link.data_received(frame())
    assert stage.waited_ms == [0, 530, 0]


async def test_a_turn_that_nobody_answers_in_ends_too(stage: Stage) -> None:
    stage.link.data_received(frame(30))
    await turn_over()
    assert stage.turn.began_at is None


async def test_what_a_peer_made_wait_by_not_reading_is_not_counted(stage: Stage) -> None:
    stage.link.pause_writing()
    stage.link.data_received(frame())
    stage.clock.advance(5_000)
    stage.link.resume_writing()
    await turn_over()
    assert stage.waited_ms == [0]
