"""The clock of a broker, and for how long the broker has been running.

No answer contains the time of day. But each broker says when it started (`bootTimestamp`) and for how long it
has been running (`runtime`, in whole seconds). Their sum is the broker's time, to a second. The answer's way
is taken as half of the round trip.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_RUNTIME: Final = re.compile(r"\[ ([\d.,]+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Seconds that a broker's clock is ahead of this machine's clock, and the possible error."""

    ahead_s: float
    error_s: float

    def apart_s(self, other: "ClockReading") -> float:
        """Return the seconds by which two clocks differ for certain."""
        return max(0.0, abs(self.ahead_s - other.ahead_s) - self.error_s - other.error_s)


def uptime_s(figures: Mapping[str, str]) -> int | None:
    """Return for how many whole seconds a broker has been running; None if it does not say."""
    runtime = _RUNTIME.fullmatch(figures.get("runtime", "").strip())
    if runtime is None:
        return None
    # Java writes thousands of days as its locale does.
    days, hours, minutes, seconds = (int(re.sub(r"[.,]", "", part)) for part in runtime.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def read_clock(figures: Mapping[str, str], asked_at_ms: int, answered_at_ms: int) -> ClockReading | None:
    """Return a broker's clock; None if its figures do not contain it."""
    try:
        boot_ms = float(figures["bootTimestamp"])
    except (KeyError, ValueError):
        return None
    running_s = uptime_s(figures)
    if running_s is None:
        return None
    # The broker cuts off a part of a second: on average half of one.
    there_s = boot_ms / 1000 + running_s + 0.5
    here_s = (asked_at_ms + answered_at_ms) / 2000
    return ClockReading(there_s - here_s, 0.5 + (answered_at_ms - asked_at_ms) / 2000)
