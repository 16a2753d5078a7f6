"""Brokers that refuse requests because they are busy, and why they are.

Ours say so themselves for a minute after the last refusal. Of RocketMQ's brokers the figures are known that
they refuse by: how long the head of the send queue waited, and how long the page cache was locked.
"""

from collections.abc import Iterator
from typing import Final

from pyromq.client.observation.snapshot import BrokerSnapshot
from pyromq.doctor.checks.check import Check
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import counted, lines

PAGE_CACHE: Final = "page cache busy"
LATE: Final = "loop late"
FULL: Final = "queue full"
#: Settings, and what they are where a broker does not say.
_WAIT: Final = ("waitTimeMillsInSendQueue", 200.0)
_WRITE: Final = ("osPageCacheBusyTimeOutMills", 1000.0)
_CAPACITY: Final = ("sendThreadPoolQueueCapacity", 10_000.0)


def busy(survey: Survey) -> Iterator[Finding]:
    """Find brokers that refuse requests with SYSTEM_BUSY."""
    for broker in survey.brokers:
        figures = survey.later(broker) or broker.figures
        reason = figures.get("brokerBusy") or _guessed(broker)
        if reason is not None:
            yield _finding(survey, broker, reason, int(figures.get("brokerBusyRefused", "0")))


def _guessed(broker: BrokerSnapshot) -> str | None:
    """Return why a broker refuses sends just now that does not say it in words; None if it does not."""
    if (broker.number("pageCacheLockTimeMills") or 0) > _setting(broker, _WRITE):
        return PAGE_CACHE
    if (broker.number("sendThreadPoolQueueHeadWaitTimeMills") or 0) >= _setting(broker, _WAIT):
        return LATE
    size, capacity = broker.number("sendThreadPoolQueueSize"), broker.number("sendThreadPoolQueueCapacity")
    return FULL if size and capacity and size >= capacity else None


def _setting(broker: BrokerSnapshot, setting: tuple[str, float]) -> float:
    name, default = setting
    try:
        return float(broker.settings.get(name, default))
    except ValueError:
        return default


def _finding(survey: Survey, broker: BrokerSnapshot, reason: str, refused: int) -> Finding:
    many = f" {counted(refused, 'request')} since it was started" if refused else " requests"
    return Finding(
        Severity.PROBLEM,
        broker.name,
        f"{broker.name} is busy and refused{many} with SYSTEM_BUSY: {_because(broker, reason)}",
        "producers get an error (code 2) for what was refused, and none of that is stored",
        _advice(survey, broker, reason),
        {
            "broker": broker.broker_name,
            "address": broker.address,
            "reason": reason,
            "refused": refused,
        },
    )


def _because(broker: BrokerSnapshot, reason: str) -> str:
    if reason == PAGE_CACHE:
        return f"{reason}, a write to its log took {_setting(broker, _WRITE):,.0f} ms or longer ({_WRITE[0]})"
    if reason == FULL:
        return f"{reason}, as many sends waited for disk or slaves as {_CAPACITY[0]} allows"
    return f"{reason}, sends waited for {_setting(broker, _WAIT):,.0f} ms or longer ({_WAIT[0]})"


def _advice(survey: Survey, broker: BrokerSnapshot, reason: str) -> str:
    at = f"{survey.at} -b {broker.address}"
    if reason == PAGE_CACHE:
        return lines(
            "look at the disk that has its log (iostat -x 1, dmesg): who else writes to it, and is it ill? A "
            "faster disk, or more memory, helps. If such writes are usual there, have it wait for longer:",
            f"pyromq cluster set {_WRITE[0]} {2 * _setting(broker, _WRITE):.0f}{at}",
        )
    if reason == FULL:
        return lines(
            "look at the disk and at the slaves, which sends wait for under SYNC_FLUSH and SYNC_MASTER:",
            f"pyromq doctor --only replicas --only disks{survey.at}",
            "or let more of them wait:",
            f"pyromq cluster set {_CAPACITY[0]} {2 * _setting(broker, _CAPACITY):.0f}{at}",
        )
    return lines(
        "there is more load than it bears: add brokers, or send less, in batches, or from fewer connections. "
        "If such waits are no harm to producers, let sends wait for longer:",
        f"pyromq cluster set {_WAIT[0]} {2 * _setting(broker, _WAIT):.0f}{at}",
    )


BUSY = Check("busy", "brokers that refuse requests because they are busy", busy)
