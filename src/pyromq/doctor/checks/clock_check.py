"""Clocks that are apart: those of brokers, and this machine's."""

from collections.abc import Iterator, Mapping
from typing import Final

from pyromq.client.observation.broker_clock import ClockReading
from pyromq.doctor.checks.check import Check
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import lasted

#: Seconds apart, for certain, from which on it matters.
WARNING_S: Final = 2.0
PROBLEM_S: Final = 60.0
HERE: Final = "this machine"


def clocks(survey: Survey) -> Iterator[Finding]:
    """Find clocks that are apart from most of the others."""
    readings: dict[str, ClockReading] = {HERE: ClockReading(0.0, 0.0)}
    for broker in survey.brokers:
        reading = broker.clock
        if reading is not None:
            readings[broker.name] = reading
    right = _most_agreed(readings)
    for name, reading in readings.items():
        apart_s = reading.apart_s(readings[right])
        if apart_s >= WARNING_S:
            yield _apart(name, reading.ahead_s - readings[right].ahead_s, apart_s, right, readings)


def _most_agreed(readings: Mapping[str, ClockReading]) -> str:
    """Return whose clock most others agree with; this machine's if that is as good."""

    def agreeing(name: str) -> int:
        return sum(reading.apart_s(readings[name]) < WARNING_S for reading in readings.values())

    return max(readings, key=lambda name: (agreeing(name), name == HERE))


def _apart(
    name: str, ahead_s: float, apart_s: float, right: str, readings: Mapping[str, ClockReading]
) -> Finding:
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
