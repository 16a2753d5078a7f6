"""Clocks that are apart: those of brokers, and this machine's.

No answer has the time of day, but every broker says when it began (`bootTimestamp`) and for how long it has
run (`runtime`, in whole seconds): together that is its clock, to a second. The way of the question and the
answer is halved.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyromq.doctor.checks.check import Check
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.survey import BrokerSeen, Survey
from pyromq.doctor.uptime import uptime_s
from pyromq.doctor.words import lasted

#: Seconds apart, for certain, from which on it matters.
WARNING_S: Final = 2.0
PROBLEM_S: Final = 60.0
HERE: Final = "this machine"


@dataclass(frozen=True, slots=True)
class Reading:
    """How many seconds a clock is ahead of this machine's, and how far that may be off."""

    ahead_s: float
    error_s: float

    def apart_s(self, other: "Reading") -> float:
        """Return the seconds that the two are apart for certain."""
        return max(0.0, abs(self.ahead_s - other.ahead_s) - self.error_s - other.error_s)


def clocks(survey: Survey) -> Iterator[Finding]:
    """Find clocks that are apart from most of the others."""
    readings: dict[str, Reading] = {HERE: Reading(0.0, 0.0)}
    for broker in survey.brokers:
        reading = read_clock(broker)
        if reading is not None:
            readings[broker.name] = reading
    right = _most_agreed(readings)
    for name, reading in readings.items():
        apart_s = reading.apart_s(readings[right])
        if apart_s >= WARNING_S:
            yield _apart(name, reading.ahead_s - readings[right].ahead_s, apart_s, right, readings)


def read_clock(broker: BrokerSeen) -> Reading | None:
    """Return a broker's clock as it was when it answered; None if it does not say."""
    boot_ms = broker.number("bootTimestamp")
    running_s = uptime_s(broker.figures)
    if boot_ms is None or running_s is None:
        return None
    # A whole second was cut off: half of it is more likely than none.
    there_s = boot_ms / 1000 + running_s + 0.5
    here_s = (broker.asked_at_ms + broker.answered_at_ms) / 2000
    return Reading(there_s - here_s, 0.5 + (broker.answered_at_ms - broker.asked_at_ms) / 2000)


def _most_agreed(readings: Mapping[str, Reading]) -> str:
    """Return whose clock most others agree with; this machine's if that is as good."""

    def agreeing(name: str) -> int:
        return sum(reading.apart_s(readings[name]) < WARNING_S for reading in readings.values())

    return max(readings, key=lambda name: (agreeing(name), name == HERE))


def _apart(name: str, ahead_s: float, apart_s: float, right: str, readings: Mapping[str, Reading]) -> Finding:
    way = "ahead of" if ahead_s > 0 else "behind"
    than = right if len(readings) == 2 else "most others"
    is_here = name == HERE
    return Finding(
        # A wrong clock here hurts no broker.
        Severity.PROBLEM if apart_s >= PROBLEM_S and not is_here else Severity.WARNING,
        name,
        f"the clock of {name} is {lasted(ahead_s)} {way} that of {than}",
        "clients here give messages wrong times: delays, timeouts of consumers and searches by time go wrong"
        if is_here
        else "delayed messages come at the wrong time, searches and resets by time find the wrong messages, "
        "and old messages go too early or too late",
        f"set the clock{'' if is_here else ' of its machine'} by NTP, as with: timedatectl set-ntp true",
        {"clock": name, "ahead_seconds": round(ahead_s, 1), "of": right},
    )


CLOCKS = Check("clocks", "clocks that are apart, of brokers and this machine", clocks)
