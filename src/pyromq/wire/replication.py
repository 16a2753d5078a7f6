"""The protocols of the HA port, by which a slave copies its master's log, in bytes. No input, no output.

Static roles (4.9). The slave speaks first; there is nothing else in either direction:

    slave → master   int64 position                    how far its log goes: hello, heartbeat, acknowledgement
    master → slave   int64 start, int32 size, bytes    a piece of the log; of size 0: a heartbeat

With failover (5.x, controller mode) a handshake comes first, and every piece tells its epoch:

    slave → master   int32 1, int16 from last file, int16 learner, int64 broker id          hello
                     int32 2, int64 position                                                all the rest
    master → slave   int32 1, int32 size, int64 end, int32 epoch, {int32 epoch, int64 start}…
                     int32 2, int32 size, int64 start, int32 epoch, int64 epoch's start, int64 confirmed,
                     bytes

Readers take bytes in any pieces and give what is whole. What the protocol forbids is a RemoteProtocolError,
and so is a size that no sane peer sends: nothing is held for it.
"""

import struct
from collections.abc import Iterable
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple

from pyromq.errors import RemoteProtocolError

#: Apache's slave has a buffer of 4 MiB, so no master can send more in one frame.
FRAME_BYTES_MAX: Final = 4 << 20
#: Apache's master has room for a thousand epochs.
EPOCHS_MAX: Final = 1000

_POSITION: Final = struct.Struct(">q")
_PIECE: Final = struct.Struct(">qi")
_HELLO: Final = struct.Struct(">ihhq")
_REPORT: Final = struct.Struct(">iq")
_WELCOME: Final = struct.Struct(">iiqi")
_EPOCH: Final = struct.Struct(">iq")
_EPOCH_PIECE: Final = struct.Struct(">iiqiqq")
_STATE: Final = struct.Struct(">i")

POSITION_BYTES: Final = _POSITION.size
#: A number that begins with such a byte is negative.
_SIGN: Final = 0x80
PIECE_HEAD_BYTES: Final = _PIECE.size
EPOCH_PIECE_HEAD_BYTES: Final = _EPOCH_PIECE.size


class LinkState(IntEnum):
    """The state of a connection in the 5.x protocol (HAConnectionState's ordinals)."""

    HANDSHAKE = 1
    TRANSFER = 2


class Hello(NamedTuple):
    """A slave's first message with failover."""

    broker_id: int
    #: A slave without a log wants the master's last file only, instead of all there is.
    is_from_last_file: bool = False
    #: It is never waited for, and never becomes master.
    is_learner: bool = False


class Welcome(NamedTuple):
    """A master's answer: where its log ends, its epoch, and where each epoch of its log began."""

    end: int
    epoch: int
    epochs: tuple[tuple[int, int], ...]


class ReplicatedPiece(NamedTuple):
    """A piece of the log as a slave received it; with static roles without epoch and confirmed position."""

    start: int
    body: memoryview
    epoch: int = 0
    epoch_start: int = 0
    confirmed: int = 0


def encode_position(position: int) -> bytes:
    """Return what a slave says with static roles."""
    return _POSITION.pack(position)


def encode_piece_head(start: int, size: int) -> bytes:
    """Return what stands before a piece of the log with static roles."""
    return _PIECE.pack(start, size)


def encode_hello(hello: Hello) -> bytes:
    """Return a slave's handshake."""
    return _HELLO.pack(LinkState.HANDSHAKE, hello.is_from_last_file, hello.is_learner, hello.broker_id)


def encode_report(position: int) -> bytes:
    """Return what a slave says after the handshake."""
    return _REPORT.pack(LinkState.TRANSFER, position)


def encode_welcome(end: int, epochs: Iterable[tuple[int, int]]) -> bytes:
    """Return a master's handshake; its own epoch is the last, −1 when there is none."""
    entries = list(epochs)[-EPOCHS_MAX:]
    last = entries[-1][0] if entries else -1
    head = _WELCOME.pack(LinkState.HANDSHAKE, len(entries) * _EPOCH.size, end, last)
    return head + b"".join(_EPOCH.pack(epoch, start) for epoch, start in entries)


def encode_epoch_piece_head(start: int, size: int, epoch: int, epoch_start: int, confirmed: int) -> bytes:
    """Return what stands before a piece of the log with failover."""
    return _EPOCH_PIECE.pack(LinkState.TRANSFER, size, start, epoch, epoch_start, confirmed)


class PositionReader:
    """Reads what a slave says with static roles."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[int]:
        """Return the positions that are whole with these bytes."""
        if len(data) == POSITION_BYTES and not self._rest and data[0] < _SIGN:
            return [_POSITION.unpack(data)[0]]  # what almost always comes
        if self._rest:
            data = self._rest + data
        whole = len(data) - len(data) % POSITION_BYTES
        self._rest = data[whole:]
        positions = [position for (position,) in _POSITION.iter_unpack(memoryview(data)[:whole])]
        if positions and min(positions) < 0:
            raise RemoteProtocolError(f"its log ends at {min(positions)}")
        return positions


class ReportReader:
    """Reads what a slave says with failover: one `Hello`, then positions."""

    __slots__ = ("_rest", "hello")

    def __init__(self) -> None:
        self._rest = b""
        #: What it said first, once it is here.
        self.hello: Hello | None = None

    def feed(self, data: bytes) -> list[int]:
        """Return the positions that are whole with these bytes."""
        if self._rest:
            data = self._rest + data
        at, positions = 0, []
        while len(data) - at >= _STATE.size:
            state = _STATE.unpack_from(data, at)[0]
            if state != (LinkState.TRANSFER if self.hello else LinkState.HANDSHAKE):
                raise RemoteProtocolError(f"a message of kind {state} where none may be")
            size = _REPORT.size if self.hello else _HELLO.size
            if len(data) - at < size:
                break
            if self.hello:
                positions.append(_REPORT.unpack_from(data, at)[1])
            else:
                self.hello = _hello_at(data, at)
            at += size
        self._rest = data[at:]
        if positions and min(positions) < 0:
            raise RemoteProtocolError(f"its log ends at {min(positions)}")
        return positions


def _hello_at(data: bytes, at: int) -> Hello:
    _, is_from_last_file, is_learner, broker_id = _HELLO.unpack_from(data, at)
    if broker_id < 0 or is_from_last_file not in (0, 1) or is_learner not in (0, 1):
        raise RemoteProtocolError(f"a handshake of broker {broker_id} with flags that do not exist")
    return Hello(broker_id, bool(is_from_last_file), bool(is_learner))


def read_piece(view: memoryview) -> tuple[ReplicatedPiece, int] | None:
    """Return the piece of the log that bytes begin with, and its length; None while it is not whole."""
    if len(view) < PIECE_HEAD_BYTES:
        return None
    start, size = _PIECE.unpack_from(view)
    length = PIECE_HEAD_BYTES + _checked_size(start, size)
    if len(view) < length:
        return None
    return ReplicatedPiece(start, view[PIECE_HEAD_BYTES:length]), length


def read_epoch_piece(view: memoryview) -> tuple[ReplicatedPiece, int] | None:
    """Do the same with failover."""
    if len(view) < _STATE.size:
        return None
    state = _STATE.unpack_from(view)[0]
    if state != LinkState.TRANSFER:
        raise RemoteProtocolError(f"a message of kind {state} where a piece of the log should be")
    if len(view) < EPOCH_PIECE_HEAD_BYTES:
        return None
    _, size, start, epoch, epoch_start, confirmed = _EPOCH_PIECE.unpack_from(view)
    length = EPOCH_PIECE_HEAD_BYTES + _checked_size(start, size)
    if len(view) < length:
        return None
    return ReplicatedPiece(start, view[EPOCH_PIECE_HEAD_BYTES:length], epoch, epoch_start, confirmed), length


def read_welcome(view: memoryview) -> tuple[Welcome, int] | None:
    """Return the master's handshake that bytes begin with, and its length; None while it is not whole."""
    if len(view) < _STATE.size:
        return None
    state = _STATE.unpack_from(view)[0]
    if state != LinkState.HANDSHAKE:
        raise RemoteProtocolError(f"a message of kind {state} where the handshake should be")
    if len(view) < _WELCOME.size:
        return None
    _, size, end, epoch = _WELCOME.unpack_from(view)
    if size < 0 or size > EPOCHS_MAX * _EPOCH.size or size % _EPOCH.size or end < 0:
        raise RemoteProtocolError(f"a handshake with {size} bytes of epochs and a log that ends at {end}")
    length = _WELCOME.size + size
    if len(view) < length:
        return None
    epochs = tuple(_EPOCH.iter_unpack(view[_WELCOME.size : length]))
    if any(after[0] <= before[0] or after[1] < before[1] for before, after in pairwise(epochs)):
        raise RemoteProtocolError("a handshake with epochs that are not in order")
    return Welcome(end, epoch, epochs), length


def _checked_size(start: int, size: int) -> int:
    if start < 0 or not 0 <= size <= FRAME_BYTES_MAX:
        raise RemoteProtocolError(f"a piece of {size} bytes at {start} of the log")
    return size
