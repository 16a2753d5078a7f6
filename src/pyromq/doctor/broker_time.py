"""What time it is at a broker, and since when it runs.

No answer has the time of day, but every broker says when it began (`bootTimestamp`) and for how long it has
run (`runtime`, in whole seconds): together that is its clock, to a second. The way of the question and the
answer is halved.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_RUNTIME: Final = re.compile(r"\[ ([\d.,]+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")


@dataclass(frozen=True, slots=True)
class Reading:
    """How many seconds a clock is ahead of this machine's, and how far that may be off."""

    ahead_s: float
    error_s: float

    def apart_s(self, other: "Reading") -> float:
        """Return the seconds that the two are apart for certain."""
        return max(0.0, abs(self.ahead_s - other.ahead_s) - self.error_s - other.error_s)


def uptime_s(figures: Mapping[str, str]) -> int | None:
    """Return for how many whole seconds a broker runs; None if it does not say."""
    runtime = _RUNTIME.fullmatch(figures.get("runtime", "").strip())
    if runtime is None:
        return None
    # Java writes thousands of days as its locale does.
    days, hours, minutes, seconds = (int(re.sub(r"[.,]", "", part)) for part in runtime.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def read_clock(figures: Mapping[str, str], asked_at_ms: int, answered_at_ms: int) -> Reading | None:
    """Return a broker's clock by its figures and when these were asked for; None if it does not say."""
    try:
        boot_ms = float(figures["bootTimestamp"])
    except (KeyError, ValueError):
        return None
    running_s = uptime_s(figures)
    if running_s is None:
        return None
    # A whole second was cut off: half of it is more likely than none.
    there_s = boot_ms / 1000 + running_s + 0.5
    here_s = (asked_at_ms + answered_at_ms) / 2000
    return Reading(there_s - here_s, 0.5 + (answered_at_ms - asked_at_ms) / 2000)
