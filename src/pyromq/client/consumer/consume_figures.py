"""Rates of a consumer's pulls and calls, by topic, over the last minute, for operators."""

from collections import deque
from dataclasses import dataclass, field

#: Figures are kept in slices of ten seconds; those of the last minute count, failures those of an hour.
SLICE_MS = 10_000
MINUTE_SLICES = 6
HOUR_SLICES = 360


@dataclass(slots=True)
class _Slice:
    at: int
    pulls: int = 0
    pull_ms: int = 0
    pulled: int = 0
    calls: int = 0
    call_ms: int = 0
    done: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class ConsumeRates:
    """Means of one topic: milliseconds of a pull and of a listener's message, and messages a second."""

    pull_ms: float = 0.0
    pulled_a_second: float = 0.0
    call_ms: float = 0.0
    done_a_second: float = 0.0
    failed_a_second: float = 0.0
    failed_in_hour: int = 0


@dataclass(slots=True)
class Figures:
    """The figures of all topics of one consumer."""

    _slices: dict[str, deque[_Slice]] = field(default_factory=dict)

    def pulled(self, topic: str, count: int, spent_ms: int, now_ms: int) -> None:
        """Note a pull that brought messages."""
        part = self._part(topic, now_ms)
        part.pulls += 1
        part.pull_ms += spent_ms
        part.pulled += count

    def consumed(self, topic: str, done: int, failed: int, spent_ms: int, now_ms: int) -> None:
        """Note messages that a listener had, for so long in all."""
        part = self._part(topic, now_ms)
        part.calls += done + failed
        part.call_ms += spent_ms
        part.done += done
        part.failed += failed

    def rates(self, topic: str, now_ms: int) -> ConsumeRates:
        """Return what a topic's figures say now."""
        now = now_ms // SLICE_MS
        hour = [part for part in self._slices.get(topic, ()) if part.at > now - HOUR_SLICES]
        minute = [part for part in hour if part.at > now - MINUTE_SLICES]
        seconds = MINUTE_SLICES * SLICE_MS / 1_000
        pulls, calls = sum(part.pulls for part in minute), sum(part.calls for part in minute)
        return ConsumeRates(
            pull_ms=sum(part.pull_ms for part in minute) / (pulls or 1),
            pulled_a_second=sum(part.pulled for part in minute) / seconds,
            call_ms=sum(part.call_ms for part in minute) / (calls or 1),
            done_a_second=sum(part.done for part in minute) / seconds,
            failed_a_second=sum(part.failed for part in minute) / seconds,
            failed_in_hour=sum(part.failed for part in hour),
        )

    def _part(self, topic: str, now_ms: int) -> _Slice:
        parts = self._slices.get(topic)
        if parts is None:
            parts = self._slices[topic] = deque(maxlen=HOUR_SLICES)
        at = now_ms // SLICE_MS
        if not parts or parts[-1].at != at:
            parts.append(_Slice(at))
        return parts[-1]
