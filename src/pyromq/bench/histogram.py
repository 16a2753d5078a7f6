"""Latencies in a fixed number of buckets: cheap to fill, exact enough to read, easy to add up.

Below 64 µs each microsecond has a bucket. Above, each doubling is cut into 32, so a bucket is at most 1/32
(3 %) wide and a figure read from its middle is at most 1.6 % off:

    value µs      0 … 63 | 64 … 127 | 128 … 255 | …
    bucket width       1 |        2 |         4 | …
    bucket        0 … 63 |  64 … 95 |  96 … 127 | …
"""

from collections.abc import Sequence
from typing import Final

_HALF: Final = 32
_EXACT: Final = 2 * _HALF
#: 2**36 µs are 19 hours; whatever is longer counts as that.
_VALUE_MAX: Final = 2**36 - 1
BUCKETS: Final = _EXACT + _HALF * (36 - 6)


def bucket_of(value_us: int) -> int:
    """Return the number of the bucket that a value falls into."""
    if value_us < _EXACT:
        return max(value_us, 0)
    shift = min(value_us, _VALUE_MAX).bit_length() - 6
    return shift * _HALF + (min(value_us, _VALUE_MAX) >> shift)


def middle_of(bucket: int) -> float:
    """Return the value in the middle of a bucket."""
    if bucket < _EXACT:
        return float(bucket)
    shift = bucket // _HALF - 1
    low = (bucket - shift * _HALF) << shift
    return low + ((1 << shift) - 1) / 2


class LatencyHistogram:
    """The number of requests by latency."""

    __slots__ = ("_counts", "count", "highest_us", "sum_us")

    def __init__(self, counts: Sequence[int] = (), sum_us: int = 0, highest_us: int = 0) -> None:
        self._counts = list(counts) or [0] * BUCKETS
        self.count = sum(self._counts)
        self.sum_us = sum_us
        self.highest_us = highest_us

    def record(self, value_us: int, times: int = 1) -> None:
        """Count a value."""
        self._counts[bucket_of(value_us)] += times
        self.count += times
        self.sum_us += value_us * times
        if value_us > self.highest_us:
            self.highest_us = value_us

    def add(self, other: "LatencyHistogram") -> None:
        """Count what another one has counted."""
        self._counts = [mine + its for mine, its in zip(self._counts, other._counts, strict=True)]
        self.count += other.count
        self.sum_us += other.sum_us
        self.highest_us = max(self.highest_us, other.highest_us)

    def parts(self) -> tuple[list[int], int, int]:
        """Return what another one is made of: counts, sum, highest value."""
        return self._counts.copy(), self.sum_us, self.highest_us

    @property
    def mean_us(self) -> float:
        """The arithmetic mean, exact; 0 when nothing was counted."""
        return self.sum_us / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Return the value that `percent` of all values do not exceed; 0 when nothing was counted."""
        if not self.count:
            return 0.0
        wanted = max(self.count * percent / 100, 1)
        seen = 0
        for bucket, number in enumerate(self._counts):
            seen += number
            if seen >= wanted:
                return min(middle_of(bucket), float(self.highest_us))
        return float(self.highest_us)
