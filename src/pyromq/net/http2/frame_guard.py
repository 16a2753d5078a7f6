"""Frames that cost their sender nothing: how many a connection may send, beside those that are of use.

HTTP/2 has frames that make the receiver work, or answer, and carry nothing: CVE-2019-9512 (PING), 9514
(RST_STREAM), 9515 (SETTINGS), 9513 (PRIORITY), 9517 (windows), 9518 (empty frames), CVE-2024-27316
(CONTINUATION). None is forbidden, so each is counted against what the connection does besides: calls that it
opened, and DATA that it was sent. No clock is asked: a busy client pings a lot, an idle one must not.
Streams that are opened and reset at once (CVE-2023-44487) are the link's, which knows how old they are.

The compiled session counts in the same way.
"""

from __future__ import annotations

from typing import Final

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

#: Flags of frames, by the kinds that have them.
END_STREAM: Final = 1
ACK: Final = 1
END_HEADERS: Final = 4

#: Frames before anything is counted against calls and DATA: connections that begin are not suspected.
ALLOWANCE: Final = 1_000
#: SETTINGS are dear: each may change the windows of all streams.
SETTINGS_ALLOWANCE: Final = 100
SETTINGS_WEIGHT: Final = 50
#: What may be answered in one turn: a PING counts once, SETTINGS as above.
ANSWERS_MAX: Final = 500
#: Frames without anything in them, one behind the other.
EMPTY_MAX: Final = 100
CONTINUATIONS_MAX: Final = 6
#: For each call that was opened, and each frame of DATA that was sent.
WINDOWS_PER_CALL: Final = 2
WINDOWS_PER_DATA: Final = 20


class FrameGuard:
    """Counts the frames of one connection."""

    __slots__ = ("_answers", "_continuations", "_empty", "_others", "_resets", "_settings", "_windows",
                 "calls", "data_sent")  # fmt: skip

    def __init__(self) -> None:
        #: Header blocks that arrived, and frames of DATA that were sent.
        self.calls = 0
        self.data_sent = 0
        self._answers = 0
        self._continuations = 0
        self._empty = 0
        self._others = 0
        self._resets = 0
        self._settings = 0
        self._windows = 0

    def turn_ended(self) -> None:
        """Note that what was answered was written."""
        self._answers = 0

    def flood(self, kind: int, flags: int, length: int) -> str | None:
        """Count a frame that begins; return the name of what there is too much of, None as a rule."""
        if kind == DATA:
            self._empty = self._empty + 1 if not length and not flags & END_STREAM else 0
        elif kind in (HEADERS, CONTINUATION):
            return self._header_block(kind, flags, length)
        elif kind == WINDOW_UPDATE:
            self._windows += 1
            allowed = ALLOWANCE + WINDOWS_PER_CALL * self.calls + WINDOWS_PER_DATA * self.data_sent
            return "WINDOW_UPDATE" if self._windows > allowed else None
        elif kind == RST_STREAM:
            self._resets += 1
            return "RST_STREAM" if self._resets > ALLOWANCE + self.calls else None
        elif kind in (PING, SETTINGS):
            return self._answered(kind, flags)
        elif kind != GOAWAY:
            self._others += 1
            return "PRIORITY" if self._others > ALLOWANCE + WINDOWS_PER_CALL * self.calls else None
        return "empty frames" if self._empty > EMPTY_MAX else None

    def _header_block(self, kind: int, flags: int, length: int) -> str | None:
        if kind == HEADERS:
            self.calls += 1
            self._continuations = 0
        else:
            self._continuations += 1
            if self._continuations > CONTINUATIONS_MAX:
                return "CONTINUATION"
        self._empty = self._empty + 1 if not length and not flags & END_HEADERS else 0
        return "empty frames" if self._empty > EMPTY_MAX else None

    def _answered(self, kind: int, flags: int) -> str | None:
        if flags & ACK:
            # Of ours, which are few; more than those are a flood like any other.
            self._others += 1
            return "ACK" if self._others > ALLOWANCE + WINDOWS_PER_CALL * self.calls else None
        self._answers += 1 if kind == PING else SETTINGS_WEIGHT
        if kind == SETTINGS:
            self._settings += 1
            if self._settings > SETTINGS_ALLOWANCE + self.calls:
                return "SETTINGS"
        if self._answers <= ANSWERS_MAX:
            return None
        return "PING" if kind == PING else "SETTINGS"
