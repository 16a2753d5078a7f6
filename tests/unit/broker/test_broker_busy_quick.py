"""Sends are refused from their bytes, in the bytes that a command would be answered with, or left alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.live_settings import BrokerLiveSettings
from pyromq.broker.requests.busy import Busy
from pyromq.codes import CommandFlag, RequestCode, ResponseCode, Serializer
from pyromq.config.settings import BrokerProcess, StoreSettings
from pyromq.kernel import IS_COMPILED
from pyromq.net.turn import Shortcut, Turn
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import send_fields, send_v2_fields
from pyromq.wire.command import Command, encode

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.net.inlet import Inlet
else:
    from pyromq._kernel.codec.inlets import Inlet


class LateLink(Inlet):
    """Stands for a connection whose requests waited for half a second."""

    def __init__(self, clock: ManualClock, received: bytes = b"", limit: int = 1 << 20) -> None:
        super().__init__(Turn(), clock.monotonic, limit)
        clock.advance(500)
        self.sent = b""
        self.feed(received)

    def send_frames(self, frames: bytes) -> None:
        self.sent += frames

    def forgive(self, size: int) -> None:
        """Nothing is counted here."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def busy(tmp_path: Path, clock: ManualClock) -> Busy:
    return Busy(BrokerLiveSettings(BrokerProcess(), tmp_path / "live", clock), clock, held_pulls=lambda: 0)


def asked(code: int = RequestCode.SEND_MESSAGE_V2, opaque: int = 7, **more: object) -> bytes:
    made = send_fields("orders") if code == RequestCode.SEND_MESSAGE else send_v2_fields("orders")
    fields = {name: str(value) for name, value in made.items()}
    return encode(Command(code, opaque=opaque, ext=fields, body=b"body", **more))  # type: ignore[arg-type]


class EmptyLog:
    """Stands for a log that nothing was written to."""

    flushed_position = 0


def decides(busy: Busy, clock: ManualClock) -> Durability:
    return Durability(cast("Any", EmptyLog()), StoreSettings(), clock, busy=busy)


def shortcut(busy: Busy, clock: ManualClock) -> Shortcut:
    made = decides(busy, clock).shortcut(None, None, under_way_max=1)
    assert made is not None
    return made


def refuse(busy: Busy, clock: ManualClock, received: bytes, limit: int = 1 << 20) -> tuple[bytes, bytes]:
    """Return what was answered, and what was left."""
    link = LateLink(clock, received, limit)
    was_one = shortcut(busy, clock)([link])  # type: ignore[list-item]
    left, start = link.received, link.start
    assert was_one == (bytes(left[start:]) != received)
    return link.sent, bytes(left[start:])


def answered(busy: Busy, clock: ManualClock, opaque: int) -> bytes:
    """Return what the long way answers."""
    answer = decides(busy, clock).refuse(LateLink(clock), Command(RequestCode.SEND_MESSAGE_V2))  # type: ignore[arg-type]
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_BUSY
    return encode(Command(answer.code, opaque=opaque, flag=CommandFlag.RESPONSE, remark=answer.remark))


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
    ],
)
def test_sends_are_answered_as_on_the_long_way(busy: Busy, clock: ManualClock, code: int) -> None:
    opaques = (0, 7, -3, 2**31 - 1)
    received = b"".join(asked(code, opaque) for opaque in opaques)
    expected = b"".join(answered(busy, clock, opaque) for opaque in opaques)
    assert refuse(busy, clock, received) == (expected, b"")
    assert sum(busy.sends.refused.values()) == 2 * len(opaques)


def test_a_oneway_send_is_dropped(busy: Busy, clock: ManualClock) -> None:
    assert refuse(busy, clock, asked(flag=CommandFlag.ONEWAY) + asked(opaque=8)) == (
        answered(busy, clock, 8),
        b"",
    )


@pytest.mark.parametrize(
    "other",
    [
        asked(RequestCode.PULL_MESSAGE),
        asked(flag=CommandFlag.RESPONSE),
        asked(serializer=Serializer.ROCKETMQ),
        asked().replace(b'"opaque":7', b'"opaqu":77'),
        asked()[:-1],
        asked()[:6],
        b"\xff\xff\xff\xff\0\0\0\4",
    ],
)
def test_anything_else_is_left_alone(busy: Busy, clock: ManualClock, other: bytes) -> None:
    assert refuse(busy, clock, asked() + other) == (answered(busy, clock, 7), other)


def test_no_more_is_answered_than_there_is_room_for(busy: Busy, clock: ManualClock) -> None:
    assert refuse(busy, clock, asked() * 3, limit=1) == (answered(busy, clock, 7), asked() * 2)


def test_nothing_is_refused_when_nothing_waited(busy: Busy, clock: ManualClock) -> None:
    link = LateLink(clock, asked())
    link.waits_since = clock.monotonic()
    assert not shortcut(busy, clock)([link])  # type: ignore[list-item]
    assert link.sent == b""
