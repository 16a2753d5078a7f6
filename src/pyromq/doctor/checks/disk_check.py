"""Disks that are nearly full, or failed.

RocketMQ acts at three marks: from the first on, messages that are old enough go at any hour and not only at
night; from the second on, messages go before their time; from the third on, sends are refused. Apache's 4.9
has the last two as properties of the process, which nobody can ask for: there they are taken to be as they
are by default.
"""

import shlex
from collections.abc import Iterator
from typing import Final

from pyromq.client.observation.snapshot import BrokerSnapshot
from pyromq.doctor.checks.check import Check
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.start_commands import LAYOUT, said_settings
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import lines

#: Settings, and what they are where a broker does not say.
MAX_USED: Final = ("diskMaxUsedSpaceRatio", 75.0)
FORCED: Final = ("diskSpaceCleanForciblyRatio", 85.0)
REFUSED: Final = ("diskSpaceWarningLevelRatio", 90.0)
#: Percent below the first mark from which on it is worth knowing.
_NEAR: Final = 5.0
_FIGURES: Final = {"commitLogDiskRatio": "messages", "consumeQueueDiskRatio": "queues"}


def disks(survey: Survey) -> Iterator[Finding]:
    """Find disks that are nearly full, and stores that failed."""
    for broker in survey.brokers:
        if (failure := broker.figures.get("storeFailure")) is not None:
            yield _failed(broker, failure)
        fullest = max(_FIGURES, key=lambda figure: broker.number(figure) or -1.0)
        percent = 100 * (broker.number(fullest) or 0.0)
        if percent > _mark(broker, REFUSED):
            yield _full(survey, broker, percent, fullest)
        elif percent > _mark(broker, FORCED):
            yield _forced(survey, broker, percent, fullest)
        elif percent > _mark(broker, MAX_USED) - _NEAR:
            yield _near(survey, broker, percent, fullest)


def _mark(broker: BrokerSnapshot, setting: tuple[str, float]) -> float:
    name, default = setting
    try:
        return float(broker.settings.get(name, default))
    except ValueError:
        return default


def _shorter(survey: Survey, broker: BrokerSnapshot) -> str:
    hours = broker.settings.get("fileReservedTime", "72")
    fewer = max(1, int(hours) // 2) if hours.isdecimal() else 24
    return lines(
        "give it a larger disk, or take away what else is on it; or keep messages for a shorter time than "
        f"{hours} hours:",
        f"pyromq cluster set fileReservedTime {fewer}{survey.at} -b {broker.address}",
        f"pyromq admin deleteExpiredCommitLog{survey.at} -b {broker.address}",
    )


def _facts(broker: BrokerSnapshot, percent: float, figure: str) -> dict[str, object]:
    return {
        "broker": broker.broker_name,
        "id": broker.broker_id,
        "address": broker.address,
        "percent": round(percent, 1),
        "figure": figure,
        "capacity": broker.figures.get("commitLogDirCapacity", ""),
        "marks": {name: _mark(broker, (name, default)) for name, default in (MAX_USED, FORCED, REFUSED)},
    }


def _words(broker: BrokerSnapshot, percent: float, figure: str) -> str:
    capacity = broker.figures.get("commitLogDirCapacity", "").rstrip(".")
    capacity = capacity.replace("Total : ", "total ").replace("Free : ", "free ")
    return f"the disk of {broker.name} with its {_FIGURES[figure]} is {percent:.0f} % full" + (
        f" ({capacity})" if capacity else ""
    )


def _full(survey: Survey, broker: BrokerSnapshot, percent: float, figure: str) -> Finding:
    return Finding(
        Severity.PROBLEM,
        broker.name,
        f"{_words(broker, percent, figure)}: over {_mark(broker, REFUSED):g} % it takes no messages "
        "(diskSpaceWarningLevelRatio)",
        "every send to it is refused until there is room; its oldest messages go, read or not",
        _shorter(survey, broker),
        _facts(broker, percent, figure),
    )


def _forced(survey: Survey, broker: BrokerSnapshot, percent: float, figure: str) -> Finding:
    return Finding(
        Severity.PROBLEM,
        broker.name,
        f"{_words(broker, percent, figure)}: over {_mark(broker, FORCED):g} % messages go before their time "
        "(diskSpaceCleanForciblyRatio)",
        "messages that nobody has read yet are lost, the oldest first; "
        f"at {_mark(broker, REFUSED):g} % sends are refused",
        _shorter(survey, broker),
        _facts(broker, percent, figure),
    )


def _near(survey: Survey, broker: BrokerSnapshot, percent: float, figure: str) -> Finding:
    mark = _mark(broker, MAX_USED)
    return Finding(
        Severity.WARNING if percent > mark else Severity.NOTE,
        broker.name,
        f"{_words(broker, percent, figure)}; the mark is {mark:g} % (diskMaxUsedSpaceRatio)",
        "from there on files that are old enough go at any hour, also when many are at work; "
        f"at {_mark(broker, FORCED):g} % messages go before their time",
        _shorter(survey, broker),
        _facts(broker, percent, figure),
    )


def _failed(broker: BrokerSnapshot, failure: str) -> Finding:
    root = broker.settings.get("storePathRootDir", "FOLDER")
    return Finding(
        Severity.PROBLEM,
        broker.name,
        f"{broker.name} writes nothing any more: {failure}",
        "a write or a sync of its log failed, so it takes no messages until it is started again",
        lines(
            "look at the disk (dmesg, SMART, free space), then restart the broker. To see that its files are "
            "whole, while it is stopped:",
            f"pyromq store verify {shlex.quote(root)}{said_settings(broker.settings, LAYOUT)}",
        ),
        {"broker": broker.broker_name, "address": broker.address, "failure": failure},
    )


DISKS = Check("disks", "disks that are nearly full, or failed", disks)
