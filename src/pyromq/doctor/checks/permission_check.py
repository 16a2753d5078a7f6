"""Brokers and topics that may not be written or read.

A broker's permission is a setting of its own (brokerPermission); and a name server may have been told to take
the write permission of all its topics away (wipeWritePerm), of which the broker knows nothing.
"""

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pyromq.client.observation.snapshot import BrokerSnapshot
from pyromq.codes import Perm
from pyromq.doctor.checks.check import Check
from pyromq.doctor.checks.topic_check import Cure, facts_of, named, parts, remedy, subject_of
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import both, some_of
from pyromq.wire.bodies.topic_bodies import TopicConfig

_BOTH: Final = Perm.READ | Perm.WRITE
_WORDS: Final = {Perm.READ: "read", Perm.WRITE: "written"}
_DOES: Final = {Perm.READ: "read from", Perm.WRITE: "send to"}


def permissions(survey: Survey) -> Iterator[Finding]:
    """Find what may not be written or read."""
    for broker in survey.masters:
        allowed = _allowed(broker)
        if allowed & _BOTH != _BOTH:
            yield _closed_broker(survey, broker, allowed)
        elif wiped := _wiped_at(survey, broker):
            yield _wiped_broker(survey, broker, wiped)
    found: defaultdict[tuple[Perm, bool, tuple[str, ...]], list[Cure]] = defaultdict(list)
    for name, configs in survey.users_topics.items():
        for perm in _WORDS:
            closed = tuple(sorted(broker for broker, config in configs.items() if not config.perm & perm))
            if closed:
                found[perm, len(closed) == len(configs), closed].append(_opened(survey, name, configs))
    for (perm, is_everywhere, closed), cures in found.items():
        for part in parts(cures):
            yield _closed_topics(survey, perm, closed, part, is_everywhere=is_everywhere)


def _allowed(broker: BrokerSnapshot) -> int:
    """Return what a broker lets clients do, as its settings say."""
    text = broker.settings.get("brokerPermission", "")
    return int(text) if text.isdecimal() else int(_BOTH)


def _wiped_at(survey: Survey, broker: BrokerSnapshot) -> list[str]:
    """Return the name servers that let no producer choose a broker."""
    name = broker.broker_name
    return [
        seen.address
        for seen in survey.name_servers
        if name in seen.perms and not seen.perms[name] & Perm.WRITE
    ]


def _others(survey: Survey, broker: BrokerSnapshot, perm: int) -> list[str]:
    """Return the other masters of a broker's cluster that can be used so."""
    return [
        one.broker_name
        for one in survey.masters
        if one is not broker
        and one.cluster == broker.cluster
        and one.failure is None
        and _allowed(one) & perm == perm
        and not (perm & Perm.WRITE and _wiped_at(survey, one))
    ]


def _left(others: Sequence[str]) -> str:
    return (
        f"; {both(others)} of its cluster can be used" if others else "; no other of its cluster can be used"
    )


def _closed_broker(survey: Survey, broker: BrokerSnapshot, allowed: int) -> Finding:
    missing = [perm for perm in _WORDS if not allowed & perm]
    name = broker.broker_name
    others = _others(survey, broker, sum(missing))
    return Finding(
        Severity.WARNING if others else Severity.PROBLEM,
        name,
        f"{name} may not be {both([_WORDS[perm] for perm in missing])}: its brokerPermission is {allowed}",
        f"nobody can {both([_DOES[perm] for perm in missing])} it{_left(others)}",
        f"pyromq cluster set brokerPermission 6{survey.at} -b {broker.address}",
        {"broker": name, "address": broker.address, "permission": allowed},
    )


def _wiped_broker(survey: Survey, broker: BrokerSnapshot, wiped: Sequence[str]) -> Finding:
    name = broker.broker_name
    others = _others(survey, broker, Perm.WRITE)
    return Finding(
        Severity.WARNING if others else Severity.PROBLEM,
        name,
        f"name server {both(wiped)} lets no producer choose {name}: its write permission was wiped",
        f"it gets no new messages{_left(others)}. That is right while it is drained, and easily forgotten "
        "afterwards",
        f"pyromq admin addWritePerm{survey.at} -b {name}",
        {"broker": name, "name_servers": list(wiped)},
    )


def _opened(survey: Survey, name: str, configs: Mapping[str, TopicConfig]) -> Cure:
    clusters = {broker.cluster for broker in survey.masters if broker.broker_name in configs}
    where = f" --cluster {next(iter(clusters))}" if len(clusters) == 1 else ""
    return Cure(name, (f"pyromq topic allow {shlex.quote(name)} read-write{survey.at}{where}",))


def _closed_topics(
    survey: Survey, perm: Perm, closed: Sequence[str], cures: Sequence[Cure], *, is_everywhere: bool
) -> Finding:
    return Finding(
        Severity.PROBLEM if is_everywhere else Severity.WARNING,
        subject_of(cures),
        f"{named(cures)} may not be {_WORDS[perm]} on "
        + (f"any broker ({some_of(closed)})" if is_everywhere else both(closed)),
        f"nobody can {_DOES[perm]} it" + ("" if is_everywhere else " there; the other brokers carry on"),
        remedy("permissions", cures, survey),
        {"brokers": list(closed), "missing": (perm.name or "").lower(), **facts_of(cures)},
    )


PERMISSIONS = Check("permissions", "brokers and topics that may not be written or read", permissions)
